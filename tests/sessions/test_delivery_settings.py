"""Settings of delivery: what is left out is as it is one level above, and no setting exceeds a channel."""

import json

import pytest
from making import tree

from halo.errors import LayerError, MissingKeyError, UsageError
from halo.sessions.delivery.channels import Opening, open_channel
from halo.sessions.delivery.plan import plan_for
from halo.sessions.secrets import settings_hold_secrets
from halo.workspace.connections import connection_of
from halo.workspace.demands import read_demands
from halo.workspace.settings.general import read_general
from halo.workspace.trust import Grants

HERE = ".halo/settings.yaml"
MACHINE = "secrets:settings.yaml"
HOOK = {"type": "webhook", "params": {"url": "https://hooks.example.com/a", "secret": "<<HOOK>>"}}


def said(**delivery):
    return json.dumps({"general": {"delivery": delivery}})


def settings(**delivery):
    return read_general(tree({HERE: said(**delivery)})).delivery


def plan(delivery, channel="ops", account="", agent="", **options):
    return plan_for(settings(**delivery), channel, account, agent, **options)


class TestDefaults:
    def test_are_those_of_the_seed(self):
        found = plan({})
        assert (found.streaming, found.drafts, found.pace.mode) == ("off", "off", "off")
        assert (found.blocks.min_chars, found.blocks.max_chars) == (800, 1200)
        assert found.whole.max_chars == 4000
        assert (found.coalesce.min_chars, found.coalesce.max_chars, found.coalesce.idle) == (800, 4000, 1.0)
        assert found.coalesce.joiner == "\n\n"
        assert (found.draft_blocks.min_chars, found.draft_blocks.max_chars) == (200, 800)

    def test_with_parts_they_go_out_as_they_are_found(self):
        assert plan({"block_streaming": True}).streaming == "text_end"
        assert plan({"block_streaming": True, "block_break": "message_end"}).streaming == "message_end"


class TestLevels:
    def test_an_account_over_its_channel_over_all_channels(self):
        delivery = {
            "block_streaming": True,
            "chunk": {"min_chars": 100, "max_chars": 900},
            "channels": {
                "ops": {
                    "chunk": {"max_chars": 500},
                    "accounts": {"work": {"block_streaming": False, "chunk": {"min_chars": 7}}},
                }
            },
        }
        general, channel, account = (plan(delivery, *at) for at in (("other",), ("ops",), ("ops", "work")))
        assert [
            (p.streaming, p.blocks.min_chars, p.blocks.max_chars) for p in (general, channel, account)
        ] == [
            ("text_end", 100, 900),
            ("text_end", 100, 500),
            ("off", 7, 500),
        ]

    def test_an_account_is_found_exactly_then_without_its_case(self):
        accounts = {"Work": {"text_limit": 10}, "work": {"text_limit": 20}}
        delivery = {"channels": {"ops": {"accounts": accounts}}}
        assert [plan(delivery, "ops", a).whole.max_chars for a in ("work", "Work", "WORK", "x")] == [
            20,
            10,
            10,
            4000,
        ]

    def test_a_channel_is_found_whatever_its_case(self):
        assert plan({"channels": {"Ops": {"text_limit": 10}}}, "ops").whole.max_chars == 10

    def test_an_agent_has_pauses_of_its_own(self):
        delivery = {
            "human_delay": {"mode": "custom", "min_ms": 5, "max_ms": 9},
            "agents": {"poet": {"human_delay": {"max_ms": 50}}},
        }
        assert plan(delivery, agent="poet").pace.max_ms == 50
        assert plan(delivery, agent="poet").pace.min_ms == 5
        assert plan(delivery).pace.max_ms == 9

    def test_the_workspace_lies_over_the_machine_value_by_value(self):
        files = {HERE: said(chunk={"min_chars": 5}), MACHINE: said(chunk={"min_chars": 1, "max_chars": 50})}
        found = plan_for(read_general(tree(files)).delivery, "ops")
        assert (found.blocks.min_chars, found.blocks.max_chars) == (5, 50)


class TestLimits:
    def test_no_part_is_longer_than_the_channel_takes(self):
        found = plan({"chunk": {"min_chars": 3000, "max_chars": 9000}}, text_limit=2000)
        assert (found.blocks.min_chars, found.blocks.max_chars, found.whole.max_chars) == (2000, 2000, 2000)
        assert found.coalesce.max_chars == 2000
        assert found.draft_blocks.max_chars == 800

    def test_a_limit_of_nothing_cuts_nothing_unless_the_channel_has_one(self):
        assert plan({"text_limit": 0}).whole.max_chars == 0
        assert plan({"text_limit": -1}).whole.max_chars == 0
        assert plan({"text_limit": 0}, text_limit=4096).whole.max_chars == 4096

    def test_mode_newline_makes_every_paragraph_a_message(self):
        found = plan({"chunk_mode": "newline", "max_lines_per_message": 17})
        assert (found.whole.by_paragraph, found.blocks.by_paragraph) == (True, True)
        assert (found.whole.max_lines, found.blocks.max_lines, found.coalesce.max_lines) == (17, 17, 17)
        assert found.blocks.min_chars == 1

    def test_flush_on_paragraph_keeps_the_least_length(self):
        found = plan({"chunk": {"flush_on_paragraph": True}})
        assert (found.blocks.by_paragraph, found.blocks.min_chars) == (True, 800)
        assert not found.whole.by_paragraph

    def test_drafts_switch_parts_off_where_the_channel_has_drafts(self):
        delivery = {"block_streaming": True, "drafts": "partial"}
        assert [(p.drafts, p.streaming) for p in (plan(delivery, drafts=True), plan(delivery))] == [
            ("partial", "off"),
            ("off", "text_end"),
        ]


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("delivery", "message"),
        [
            ({"channels": {"group": {}}}, "'group' is not a name for a channel"),
            ({"channels": {"a": {}, "A": {}}}, "'A' and 'a' are one channel"),
            ({"channels": {"a": {"connect": {"type": "x/y"}}}}, "'x/y' is not the name of an entry point"),
            ({"channels": {"a": {"connect": {"params": {"url": "a\nb"}}}}}, "a value is text on one line"),
            (
                {"chunk": {"max_chars": 0}},
                "general.delivery.chunk.max_chars: expected a whole number of at least 1",
            ),
            ({"block_brake": "text_end"}, "unknown key 'block_brake'"),
            ({"drafts": "all"}, "general.delivery.drafts"),
        ],
    )
    def test_with_file_and_line(self, delivery, message):
        with pytest.raises(LayerError) as error:
            settings(**delivery)
        assert error.value.message.startswith(message)
        assert error.value.file == f"workspace:{HERE}"

    def test_off_is_a_word_in_yaml_and_true_is_not(self):
        text = "general: {delivery: {block_streaming: false, drafts: off, human_delay: {mode: off}}}"
        found = read_general(tree({HERE: text})).delivery
        assert (found.block_streaming, found.drafts, found.human_delay.mode) == (False, "off", "off")


def opened(files, channel="ops", account="", environ=None, grants=None):
    opening = Opening(channel, account, {}, "/w/.halo", print, lambda: 0.0)
    found = tree(files)
    return open_channel(found, grants or Grants(), environ or {}, opening)


class TestConnections:
    def test_without_a_word_the_name_is_the_type(self):
        found = connection_of(tree({}), "terminal")
        assert (found.connect.type, found.scope) == ("terminal", "machine")

    def test_an_account_may_be_reached_in_its_own_way(self):
        other = {**HOOK, "params": {"url": "https://b.example"}}
        text = said(channels={"ops": {"connect": HOOK, "accounts": {"b": {"connect": other}}}})
        files = tree({MACHINE: text})
        assert connection_of(files, "ops").connect.params["url"] == "https://hooks.example.com/a"
        assert connection_of(files, "ops", "B").connect.params == {"url": "https://b.example"}
        assert connection_of(files, "ops", "B").name == "channels.ops.accounts.b.connect"

    def test_an_address_of_one_file_never_gets_the_secret_of_another(self):
        evil = {"type": "webhook", "params": {"url": "https://evil.example"}}
        files = {
            MACHINE: said(channels={"ops": {"connect": HOOK}}),
            HERE: said(channels={"ops": {"connect": evil}}),
        }
        assert connection_of(tree(files), "ops").connect.params == {"url": "https://evil.example"}

    def test_a_workspace_that_reaches_out_needs_trust(self):
        files = {HERE: said(channels={"ops": {"connect": HOOK}})}
        demands = read_demands(tree(files))
        ((name, definition),) = demands.channels
        assert name == "channels.ops.connect"
        assert "hooks.example.com" in definition
        with pytest.raises(UsageError, match="nobody has allowed it"):
            opened(files, environ={"HOOK": "s"})
        assert opened(files, environ={"HOOK": "s"}, grants=Grants(demands)).drafts

    def test_another_address_needs_it_again(self):
        granted = read_demands(tree({HERE: said(channels={"ops": {"connect": HOOK}})}))
        moved = {**HOOK, "params": {**HOOK["params"], "url": "https://evil.example"}}
        with pytest.raises(UsageError, match="nobody has allowed it"):
            opened(
                {HERE: said(channels={"ops": {"connect": moved}})},
                environ={"HOOK": "s"},
                grants=Grants(granted),
            )

    @pytest.mark.parametrize("connect", [{"type": "terminal"}, {"type": "outbox"}])
    def test_what_stays_here_needs_none(self, connect):
        text = said(channels={"ops": {"connect": connect}})
        assert read_demands(tree({HERE: text})).channels == ()

    def test_an_outbox_elsewhere_does(self):
        connect = {"type": "outbox", "params": {"folder": "/srv/out"}}
        assert read_demands(tree({HERE: said(channels={"ops": {"connect": connect}})})).channels

    def test_what_the_machine_says_needs_none(self):
        files = {MACHINE: said(channels={"ops": {"connect": HOOK}})}
        assert opened(files, environ={"HOOK": "s"}).drafts

    def test_a_variable_that_is_not_set_is_named(self):
        with pytest.raises(MissingKeyError, match="HOOK") as error:
            opened({MACHINE: said(channels={"ops": {"connect": HOOK}})})
        assert error.value.exit_code == 3

    def test_a_literal_secret_of_the_workspace_is_hidden_from_commands(self):
        literal = {**HOOK, "params": {**HOOK["params"], "secret": "whsec_abc"}}
        assert settings_hold_secrets(tree({HERE: said(channels={"ops": {"connect": literal}})}))
        assert not settings_hold_secrets(tree({HERE: said(channels={"ops": {"connect": HOOK}})}))
