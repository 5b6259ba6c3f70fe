"""The send policy: whether a reply may go out. One rule that denies is enough, wherever it stands."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import tree

from halo.errors import LayerError
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.sending import decide_sending
from halo.workspace.settings.general import read_general
from halo.workspace.settings.sessions import SendPolicy, SendRule

GROUP = "agent:a:discord:group:G1"
DIRECT = "agent:a:telegram:direct:U7"


def policy(*rules, default="allow"):
    return msgspec.convert({"rules": rules, "default": default}, SendPolicy)


def deny(**match):
    return {"action": "deny", "match": match}


def allow(**match):
    return {"action": "allow", "match": match}


def allowed(rules, key=GROUP, **options):
    return decide_sending(rules, parse_key(key), **options).allowed


class TestMatching:
    @pytest.mark.parametrize(
        "key",
        [
            "agent:a:matrix:channel:!room:example.org",
            "agent:a:node:build1",
            "agent:a:hook:a:b",
            "agent:a:direct:+49 170",
            "agent:a:direct:jürgen",
            "agent:a:group:direct",
            "agent:a:my name",
            "agent:a:dm:bob",
            "AGENT:a:Telegram:acc:DM:x",
        ],
    )
    def test_a_key_is_spelt_as_any_command_takes_it(self, key):
        rest = key.split(":", 2)[2]
        for match in ({"key_prefix": rest}, {"key_prefix": key}, {"raw_key_prefix": key}):
            assert not allowed(policy(deny(**match)), key)
            assert allowed(policy(deny(**match)), "agent:a:telegram:direct:another")

    def test_without_rules_the_default_decides(self):
        assert allowed(SendPolicy())
        assert not allowed(policy(default="deny"))

    @pytest.mark.parametrize(
        ("match", "key", "matches"),
        [
            ({}, GROUP, True),
            ({"channel": "discord"}, GROUP, True),
            ({"channel": "Discord"}, GROUP, True),
            ({"channel": "telegram"}, GROUP, False),
            ({"chat_type": "group"}, GROUP, True),
            ({"chat_type": "group"}, GROUP + ":thread:t", True),
            ({"chat_type": "thread"}, GROUP + ":thread:t", True),
            ({"chat_type": "thread"}, "agent:a:telegram:group:G:topic:7", True),
            ({"chat_type": "thread"}, GROUP, False),
            ({"chat_type": "channel"}, GROUP, False),
            ({"chat_type": "direct"}, DIRECT, True),
            ({"chat_type": "dm"}, DIRECT, True),
            ({"chat_type": "direct"}, "agent:a:main", True),
            ({"chat_type": "direct"}, "agent:a:cron:j", False),
            ({"channel": "discord", "chat_type": "group"}, GROUP, True),
            ({"channel": "discord", "chat_type": "direct"}, GROUP, False),
            ({"key_prefix": "cron:"}, "agent:a:cron:nightly", True),
            ({"key_prefix": "cron:"}, GROUP, False),
            ({"key_prefix": "telegram:dm:"}, DIRECT, True),
            ({"key_prefix": "Telegram:DM:U"}, DIRECT, True),
            ({"key_prefix": "telegram:direct:u"}, DIRECT, False),
            ({"key_prefix": "agent:a:"}, DIRECT, False),
            ({"raw_key_prefix": "agent:a:"}, DIRECT, True),
            ({"raw_key_prefix": "agent:b:"}, DIRECT, False),
            ({"raw_key_prefix": "agent:a:telegram:dm:"}, DIRECT, True),
            ({"raw_key_prefix": "telegram:"}, DIRECT, False),
            ({"raw_key_prefix": "agent:a:cron:"}, "agent:a:cron:nightly", True),
        ],
    )
    def test_what_a_rule_is_for(self, match, key, matches):
        assert allowed(policy(deny(**match)), key) is not matches
        assert allowed(policy(allow(**match), default="deny"), key) is matches

    def test_a_main_session_answers_by_the_channel_that_it_was_asked_by(self):
        rules = policy(deny(channel="discord"))
        assert not allowed(rules, "agent:a:main", channel="Discord")
        assert allowed(rules, "agent:a:main", channel="telegram")

    def test_the_reason_names_the_rule(self):
        found = decide_sending(policy(allow(), deny(channel="discord")), parse_key(GROUP))
        assert found.reason == "rule 2 of send_policy says deny"


class TestOverride:
    def test_what_is_set_for_the_session_counts_before_all_rules(self):
        assert allowed(policy(deny()), override="allow")
        assert not allowed(policy(allow()), override="deny")
        assert not allowed(policy(deny()), override="")

    def test_a_word_of_a_later_version_is_no_override(self):
        assert not allowed(policy(deny()), override="perhaps")


matches = st.fixed_dictionaries(
    {},
    optional={
        "channel": st.sampled_from(["discord", "telegram"]),
        "chat_type": st.sampled_from(["direct", "group", "channel", "thread"]),
        "key_prefix": st.sampled_from(["discord:", "telegram:direct:", "cron:"]),
        "raw_key_prefix": st.sampled_from(["agent:a:", "agent:b:"]),
    },
)
rules = st.lists(
    st.builds(
        lambda action, match: {"action": action, "match": match}, st.sampled_from(["allow", "deny"]), matches
    ),
    max_size=5,
)
some_key = st.sampled_from(
    [GROUP, DIRECT, "agent:a:main", "agent:b:cron:j", "agent:b:discord:channel:C:thread:t"]
)


class TestOrder:
    @given(rules, st.randoms(), some_key, st.sampled_from(["allow", "deny"]))
    def test_it_does_not_matter(self, written, random, key, default):
        shuffled = random.sample(written, len(written))
        assert allowed(policy(*written, default=default), key) == allowed(
            policy(*shuffled, default=default), key
        )

    @given(rules, matches, some_key, st.integers(0, 5))
    def test_a_rule_that_denies_is_never_beaten(self, written, match, key, place):
        if allowed(policy(deny(**match)), key):
            return
        assert not allowed(policy(*written[:place], deny(**match), *written[place:]), key)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [{action: maybe}]", "maybe"),
        ("rules: [{action: Deny}]", "Deny"),
        ("rules: [{match: {channel: x}}]", "action"),
        ("rules: [{action: deny, match: {chatType: group}}]", "did you mean 'chat_type'"),
        ("rules: [{action: deny, match: {chat_type: grup}}]", "grup"),
        ("rules: [{action: deny, match: {channel: 'a:b'}}]", "not a name for a channel"),
        ("default: perhaps", "perhaps"),
    ],
)
def test_a_rule_that_means_nothing_is_an_error_and_allows_nothing(text, said):
    files = {".halo/settings.yaml": f"general:\n  session:\n    send_policy:\n      {text}\n"}
    with pytest.raises(LayerError) as caught:
        read_general(tree(files))
    assert said in str(caught.value)
    assert caught.value.line == 4


def test_a_policy_as_it_is_written():
    text = """\
general:
  session:
    send_policy:
      rules:
        - {action: deny, match: {channel: discord, chat_type: group}}
        - {action: deny, match: {key_prefix: "cron:"}}
"""
    found = read_general(tree({".halo/settings.yaml": text})).session.send_policy
    assert [type(rule) for rule in found.rules] == [SendRule, SendRule]
    assert [allowed(found, key) for key in (GROUP, "agent:a:cron:j", DIRECT)] == [False, False, True]
