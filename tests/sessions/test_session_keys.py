"""Session keys: what is one, what each part means, and that none is ever taken for another."""

from typing import ClassVar

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halo.errors import HaloError, SessionKeyError, UnknownNameError
from halo.records.channels import KEY_WORDS, channel_name
from halo.sessions.routing.addressing import address
from halo.sessions.routing.callers import Caller, find_visible, own_key
from halo.sessions.routing.grammar import file_safe, is_listed, normalised, parse_key
from halo.sessions.routing.inbound import Inbound
from halo.sessions.routing.key import SessionKey
from halo.sessions.routing.known import Known, current_of, history_of
from halo.workspace.settings.sessions import SessionSettings

SCOPES = ["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]


def key(rest, agent="a", **parts):
    return parse_key(f"agent:{agent}:{rest}"), SessionKey(agent, **parts)


class TestGrammar:
    @pytest.mark.parametrize(
        ("rest", "kind", "listed", "parts"),
        [
            ("main", "main", "main", {}),
            ("direct:P", "direct", "other", {"base": "direct", "peer": "P"}),
            ("telegram:direct:P", "direct", "other", {"base": "direct", "channel": "telegram", "peer": "P"}),
            (
                "telegram:default:direct:P",
                "direct",
                "other",
                {"base": "direct", "channel": "telegram", "account": "default", "peer": "P"},
            ),
            ("discord:group:G", "group", "group", {"base": "group", "channel": "discord", "peer": "G"}),
            ("slack:channel:C", "channel", "group", {"base": "channel", "channel": "slack", "peer": "C"}),
            (
                "telegram:group:-100:topic:7",
                "thread",
                "group",
                {"base": "group", "channel": "telegram", "peer": "-100", "topic": "7"},
            ),
            (
                "slack:channel:C:thread:17.3",
                "thread",
                "group",
                {"base": "channel", "channel": "slack", "peer": "C", "thread": "17.3"},
            ),
            ("main:thread:t", "thread", "main", {"thread": "t"}),
            ("subagent:u1", "spawned", "other", {"base": "spawned", "peer": "u1"}),
            (
                "subagent:u1:subagent:u2",
                "spawned",
                "other",
                {"base": "spawned", "peer": "u2", "above": ("u1",)},
            ),
            ("cron:nightly", "cron", "cron", {"base": "cron", "peer": "nightly"}),
            ("cron:nightly:run:9", "cron", "cron", {"base": "cron", "peer": "nightly", "run": "9"}),
            ("hook:5e1f", "hook", "hook", {"base": "hook", "peer": "5e1f"}),
            ("node-kitchen", "node", "node", {"base": "node", "peer": "kitchen"}),
            ("acp:5e1f", "other", "other", {"base": "other", "peer": "5e1f", "above": ("acp",)}),
            ("my-notes", "other", "other", {"base": "other", "peer": "my-notes"}),
            ("group:G", "group", "group", {"base": "group", "peer": "G"}),
        ],
    )
    def test_each_form(self, rest, kind, listed, parts):
        read, built = key(rest, **parts)
        assert read == built
        assert (read.kind, read.listed) == (kind, listed)
        assert read.text == f"agent:a:{rest}"

    @pytest.mark.parametrize(
        ("written", "text"),
        [
            ("agent:a:telegram:dm:P", "agent:a:telegram:direct:P"),
            ("agent:a:dm:P", "agent:a:direct:P"),
            ("AGENT:a:Telegram:DM:P", "agent:a:telegram:direct:P"),
            ("  agent:a:MAIN ", "agent:a:main"),
            ("agent:a:node:kitchen", "agent:a:node-kitchen"),
            ("agent:a:matrix:channel:!Room:server.org", "agent:a:matrix:channel:!Room%3aserver.org"),
            (
                "agent:a:matrix:channel:!Room:server.org:Thread:$Event",
                "agent:a:matrix:channel:!Room%3aserver.org:thread:%24Event",
            ),
            ("agent:a:direct:%C3%B8", "agent:a:direct:%c3%b8"),
            ("agent:a:direct:ø", "agent:a:direct:%c3%b8"),
            ("agent:a:direct:%41da", "agent:a:direct:Ada"),
        ],
    )
    def test_other_spellings_of_the_same_key(self, written, text):
        assert normalised(written) == text

    @pytest.mark.parametrize(
        ("alias", "text"),
        [
            ("main", "agent:a:main"),
            ("cron:nightly", "agent:a:cron:nightly"),
            ("hook:5e1f", "agent:a:hook:5e1f"),
            ("node-kitchen", "agent:a:node-kitchen"),
            ("group:G", "agent:a:group:G"),
            ("notes", "agent:a:notes"),
            ("agent:b:main", "agent:b:main"),
        ],
    )
    def test_an_alias_is_a_key_of_the_agent_that_is_spoken_with(self, alias, text):
        assert normalised(alias, agent="a") == text

    def test_a_key_is_not_prefixed_twice_row_23(self):
        once = normalised("main", agent="a")
        assert normalised(once, agent="a") == once
        assert normalised(once, agent="b") == once
        with pytest.raises(SessionKeyError, match="twice"):
            parse_key("agent:main:agent:main:main")

    def test_the_case_of_an_agent_stays(self):
        """Agents are folders, and two of them may differ in case alone."""
        assert parse_key("agent:Lead:main") != parse_key("agent:lead:main")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "empty"),
            ("   ", "empty"),
            ("agent:", "between two colons, or at an end"),
            ("agent:a", "ends early"),
            ("agent:a:", "at an end"),
            ("agent::main", "between two colons"),
            ("agent:a::main", "between two colons"),
            ("agent:../x:main", "not the id of an agent"),
            ("agent:a b:main", "not the id of an agent"),
            ("main", "names no agent"),
            ("agent:a:direct", "needs an id"),
            ("agent:a:direct:%20", "needs an id"),
            ("agent:a:telegram:direct", "needs an id"),
            ("agent:a:telegram:direct:", "at an end"),
            ("agent:a:telegram:acc:direct", "needs an id"),
            ("agent:a:telegram:group", "needs an id"),
            ("agent:a:direct:~", "needs an id"),
            ("agent:a:cron", "needs an id"),
            ("agent:a:node-", "needs an id"),
            ("agent:a:main:x", "no such form"),
            ("agent:a:topic:x", "no such form"),
            ("agent:a:global:x", "no such form"),
            ("agent:a:global", "reserved"),
            ("agent:a:Unknown", "reserved"),
            ("agent:a:subagent", "no such form"),
            ("agent:a:subagent:u:x", "no such form"),
            ("agent:a:telegram:group:g:topic", "no id behind topic"),
            ("agent:a:main:thread", "no id behind thread"),
            ("agent:a:direct:100%", "% without two hex digits"),
            ("agent:a:direct:%zz", "% without two hex digits"),
            ("agent:a:direct:%ff", "not UTF-8"),
            ("agent:a:direct:a\nb", "control character"),
            ("agent:a:a%20b:direct:P", "is not a channel"),
            ("agent:a:direct:" + "x" * 70_000, "65,536"),
        ],
    )
    def test_what_is_no_key_is_refused_and_said_why(self, text, said):
        with pytest.raises(SessionKeyError) as caught:
            parse_key(text)
        assert said in caught.value.message
        assert len(str(caught.value)) < 3_000

    def test_reserved_keys_are_never_listed(self):
        keys = ["global", "unknown", "agent:a:global", "agent:a:unknown", "agent:a:UNKNOWN", "agent:", ""]
        assert [text for text in [*keys, "agent:a:main"] if is_listed(text)] == ["agent:a:main"]

    @pytest.mark.parametrize(
        "parts",
        [
            {"base": "main", "peer": "x"},
            {"base": "direct", "peer": "x", "account": "acc"},
            {"base": "direct", "peer": "x", "topic": "t"},
            {"base": "direct", "channel": "telegram", "peer": "x", "linked": True},
            {"base": "group", "channel": "telegram", "peer": "x", "linked": True},
            {"base": "channel", "peer": "x"},
            {"base": "hook", "peer": "x", "run": "1"},
            {"base": "direct", "channel": "Telegram", "peer": "x"},
            {"base": "direct", "channel": "direct", "peer": "x"},
            {"base": "direct", "peer": " "},
            {"base": "main", "thread": " "},
            {"base": "spawned", "peer": "x", "above": ("", "y")},
            {"base": "spawned", "peer": "x", "above": ("y",) * 65},
        ],
    )
    def test_a_key_that_could_not_be_read_back_cannot_be_made(self, parts):
        with pytest.raises(SessionKeyError):
            SessionKey("a", **parts)


# Ids of strangers: what breaks grammars, paths and terminals comes up often.
BAD = [
    ":",
    "/",
    "\\",
    "..",
    "%",
    "~",
    "\0",
    "\n",
    "\x1b[31m",
    "\u202e",
    "é",
    "e\u0301",
    "ß",
    "😀",
    "\ud83d",
    " ",
]
ids = (
    st.lists(
        st.sampled_from([*BAD, *sorted(KEY_WORDS), "node-", "A", "a", "."]) | st.characters(), max_size=8
    )
    .map("".join)
    .filter(str.strip)
)
channels = st.sampled_from(["telegram", "discord", "matrix", "x.y-z_1"])


def made(draw_from):
    return st.builds(lambda parts: SessionKey("a", **parts), draw_from)


def parts(base, **fields):
    return st.fixed_dictionaries(
        {"base": st.just(base), **fields},
        optional={"thread": ids, **({"run": ids} if base == "cron" else {})},
    )


keys = made(
    parts("main")
    | parts("direct", peer=ids, linked=st.booleans())
    | parts("direct", channel=channels, peer=ids)
    | parts("direct", channel=channels, account=ids, peer=ids)
    | parts("group", channel=channels, peer=ids, topic=ids | st.just(""))
    | parts("group", peer=ids)
    | parts("channel", channel=channels, peer=ids, topic=ids | st.just(""))
    | parts("cron", peer=ids)
    | parts("hook", peer=ids)
    | parts("node", peer=ids)
    | parts("spawned", peer=ids, above=st.lists(ids, max_size=3).map(tuple))
    | parts("other", peer=ids, above=st.lists(ids, max_size=3).map(tuple))
)


class TestProperties:
    @given(keys)
    @example(SessionKey("a", "other", peer="node-x"))
    @example(SessionKey("a", "other", peer="x", above=("global",)))
    @example(SessionKey("a", "other", peer="unknown"))
    @example(SessionKey("a", "direct", channel="telegram", account="direct", peer="direct"))
    @example(SessionKey("a", "direct", peer="~alice"))
    @example(SessionKey("a", "direct", peer="~alice", linked=True))
    @example(SessionKey("a", "direct", peer="x" * 65_536))
    def test_a_key_is_what_its_text_says(self, made):
        text = made.text
        assert parse_key(text) == made
        assert normalised(text, agent="b") == text

    @given(keys)
    def test_its_text_is_safe_in_a_line_and_names_no_path(self, made):
        text = made.text
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set("/\\ \"'*?<>|")
        assert ".." not in text
        assert not any(segment.startswith(".") for segment in text.split(":"))

    @given(keys, keys)
    def test_two_keys_have_two_texts_and_two_file_names(self, one, other):
        assert (one == other) == (one.text == other.text)
        assert (one == other) == (file_safe(one).casefold() == file_safe(other).casefold())

    @given(st.text() | st.lists(st.sampled_from([*BAD, *sorted(KEY_WORDS), "a", ":"])).map("".join))
    def test_any_text_is_a_key_or_refused_row_23(self, text):
        try:
            once = normalised(text, agent="a")
        except SessionKeyError:
            return
        assert normalised(once, agent="b") == once

    @given(keys)
    def test_a_file_name_is_one(self, made):
        name = file_safe(made)
        assert 0 < len(name) <= 200
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_%~")

    def test_long_keys_that_begin_alike_have_names_of_their_own(self):
        one, other = (SessionKey("a", "direct", peer="x" * 5_000 + end) for end in "12")
        assert file_safe(one) != file_safe(other)
        assert file_safe(one)[:100] == file_safe(other)[:100]


class TestScopes:
    @pytest.mark.parametrize(
        ("scope", "text"),
        [
            ("main", "agent:a:main"),
            ("per-peer", "agent:a:direct:U7"),
            ("per-channel-peer", "agent:a:telegram:direct:U7"),
            ("per-account-channel-peer", "agent:a:telegram:shop:direct:U7"),
        ],
    )
    def test_the_four(self, scope, text):
        inbound = Inbound("Telegram", "dm", account="shop", peer="U7")
        assert address(SessionSettings(dm_scope=scope), "a", inbound).key.text == text

    def test_an_account_that_nobody_names_is_the_default(self):
        settings = SessionSettings(dm_scope="per-account-channel-peer")
        found = address(settings, "a", Inbound("telegram", peer="U7"))
        assert found.key.text == "agent:a:telegram:default:direct:U7"

    @pytest.mark.parametrize("scope", SCOPES)
    @pytest.mark.parametrize("peer", ["", " ", "\t\n", "\u3000"])
    def test_a_sender_without_an_id_is_refused_and_not_led_to_main(self, scope, peer):
        with pytest.raises(SessionKeyError, match="needs an id") as caught:
            address(SessionSettings(dm_scope=scope), "a", Inbound("telegram", peer=peer))
        assert "strangers" in (caught.value.hint or "")

    @pytest.mark.parametrize("kind", ["group", "channel"])
    def test_a_group_without_an_id_is_refused_too(self, kind):
        with pytest.raises(SessionKeyError, match="needs an id"):
            address(SessionSettings(), "a", Inbound("telegram", kind, peer="U7"))

    def test_groups_and_rooms_have_keys_of_their_own_whatever_the_scope(self):
        group = Inbound("telegram", "group", peer="U7", group="-100", topic="7")
        room = Inbound("slack", "channel", peer="U7", group="C1", thread="17.3")
        for scope in SCOPES:
            settings = SessionSettings(dm_scope=scope)
            assert address(settings, "a", group).key.text == "agent:a:telegram:group:-100:topic:7"
            assert address(settings, "a", room).key.text == "agent:a:slack:channel:C1:thread:17.3"

    def test_a_thread_of_a_direct_conversation(self):
        inbound = Inbound("slack", peer="U7", thread="17.3")
        assert address(SessionSettings(), "a", inbound).key.text == "agent:a:main:thread:17.3"
        found = address(SessionSettings(dm_scope="per-peer"), "a", inbound)
        assert found.key.text == "agent:a:direct:U7:thread:17.3"

    def test_what_a_program_sends_to_nobody_reaches_main(self):
        settings = SessionSettings(dm_scope="per-peer")
        assert address(settings, "a", Inbound("telegram", event="heartbeat")).key.text == "agent:a:main"

    @given(
        st.sampled_from(SCOPES[2:]), st.lists(st.tuples(channels, ids), min_size=2, max_size=2, unique=True)
    )
    def test_distinct_peers_never_share_a_key_row_24(self, scope, senders):
        settings = SessionSettings(dm_scope=scope, identity_links={"alice": ("telegram:1",)})
        one, other = (address(settings, "a", Inbound(c, peer=p)).key.text for c, p in senders)
        assert one != other

    @given(ids, ids, st.sampled_from(SCOPES[1:]))
    @example("Uabc", "UABC", "per-peer")
    def test_ids_that_differ_in_case_alone_are_two_people_row_24(self, one, other, scope):
        settings = SessionSettings(dm_scope=scope)
        texts = {address(settings, "a", Inbound("telegram", peer=p)).key.text for p in (one, other)}
        assert len(texts) == len({one, other})

    @given(ids, ids, channels, ids, ids, st.sampled_from(["direct", "group", "channel"]))
    def test_neither_do_accounts_types_or_threads(self, peer, group, channel, account, thread, kind):
        settings = SessionSettings(dm_scope="per-account-channel-peer")
        inbound = Inbound(channel, kind, account=account, peer=peer, group=group, thread=thread)
        text = address(settings, "a", inbound).key.text
        others = {
            address(settings, "a", msgspec.structs.replace(inbound, **change)).key.text
            for change in (
                {"thread": ""},
                {"thread": thread + "x"},
                {"chat_type": "group" if kind != "group" else "channel"},
                {"peer": peer + "x", "group": group + "x"},
            )
        }
        assert text not in others
        assert len(others) == 4


class TestIdentityLinks:
    LINKS: ClassVar = {"alice": ("telegram:1", "Discord:D7"), "bob": ("telegram:2",)}

    def settings(self, scope="per-channel-peer", **links):
        return SessionSettings(dm_scope=scope, identity_links=links or self.LINKS)

    @pytest.mark.parametrize("scope", SCOPES[1:])
    def test_a_person_has_one_session_on_all_channels(self, scope):
        settings = self.settings(scope)
        found = {
            address(settings, "a", inbound).key.text
            for inbound in (Inbound("telegram", peer="1"), Inbound("discord", peer="D7", account="x"))
        }
        assert found == {"agent:a:direct:~alice"}
        assert address(settings, "a", Inbound("telegram", peer="2")).key.text == "agent:a:direct:~bob"

    def test_they_do_not_count_where_all_share_main(self):
        assert address(self.settings("main"), "a", Inbound("telegram", peer="1")).key.text == "agent:a:main"

    def test_a_stranger_whose_id_is_the_name_is_not_that_person(self):
        for peer in ("alice", "~alice"):
            found = address(self.settings("per-peer"), "a", Inbound("telegram", peer=peer))
            assert found.key != address(self.settings("per-peer"), "a", Inbound("telegram", peer="1")).key
            assert not found.key.linked

    def test_an_entry_without_a_channel_matches_nobody(self):
        settings = self.settings(alice=("1", ":1", "telegram:", "@u:server"))
        for channel, peer in [("telegram", "1"), ("discord", "1"), ("matrix", "@u:server")]:
            assert not address(settings, "a", Inbound(channel, peer=peer)).key.linked

    def test_ids_are_compared_with_their_case_and_channels_without(self):
        assert not address(self.settings(), "a", Inbound("discord", peer="d7")).key.linked
        assert address(self.settings(), "a", Inbound("DISCORD", peer="D7")).key.linked

    def test_an_id_with_a_colon(self):
        settings = self.settings(ada=("matrix:@ada:server.org",))
        found = address(settings, "a", Inbound("matrix", peer="@ada:server.org"))
        assert found.key.text == "agent:a:direct:~ada"

    def test_one_that_two_names_claim_belongs_to_neither(self):
        settings = self.settings(alice=("telegram:1",), bob=("telegram:1",))
        found = address(settings, "a", Inbound("telegram", peer="1"))
        assert found.key.text == "agent:a:telegram:direct:1"
        assert "none of them counts" in found.notes[-1]


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("Telegram", "telegram"),
        (" x ", "x"),
        ("a.b", "a.b"),
        ("", ""),
        ("../x", ""),
        ("a..b", ""),
        ("a:b", ""),
    ]
    + [(word, "") for word in sorted(KEY_WORDS)]
    + [("node-x", ""), ("x" * 65, ""), ("é", "")],
)
def test_names_of_channels(name, channel):
    assert channel_name(name) == channel


@pytest.mark.parametrize("envelope", [{"channel": "a:b"}, {"channel": "x", "chat_type": "thread"}])
def test_an_envelope_that_leads_nowhere_is_refused(envelope):
    with pytest.raises(SessionKeyError):
        Inbound(**envelope)


class TestHistory:
    """Row 20: every session that a key ever had is found, not the newest alone."""

    ROWS = (
        Known("20260101t000000-aaaaaa", "agent:a:main", successor="20260102t000000-bbbbbb"),
        Known("20260103t000000-cccccc", "agent:a:main"),
        Known("20260102t000000-bbbbbb", "agent:a:main", successor="20260103t000000-cccccc"),
        Known("20260104t000000-dddddd", "agent:a:direct:P"),
    )

    def test_all_of_them_the_newest_first_row_20(self):
        found = history_of(self.ROWS, parse_key("agent:a:main"))
        assert [row.id[-6:] for row in found] == ["cccccc", "bbbbbb", "aaaaaa"]
        assert current_of(found) == self.ROWS[1]

    def test_a_clock_that_went_back_does_not_bring_an_old_one_back(self):
        """The successor has the smaller id; what ended stays ended."""
        rows = [
            Known("20260105t000000-eeeeee", "agent:a:main", successor="20260101t000000-aaaaaa"),
            Known("20260101t000000-aaaaaa", "agent:a:main"),
        ]
        assert current_of(history_of(rows, parse_key("agent:a:main"))) == rows[1]

    def test_none_where_all_have_ended_or_are_archived(self):
        rows = [self.ROWS[0], Known("20260103t000000-cccccc", "agent:a:main", settings={"archived": "yes"})]
        assert current_of(history_of(rows, parse_key("agent:a:main"))) is None


ME, CHILD, GRANDCHILD, ROOT, SIBLING, STRANGER = (
    f"2026010{i}t000000-{name * 6}" for i, name in enumerate("mcgrsx", 1)
)


class TestCallers:
    """Row 26: a key that a model chose opens nothing that its session may not see."""

    ROWS = (
        Known(ROOT, "agent:a:main"),
        Known(ME, "agent:b:subagent:m", parent=ROOT, root=ROOT),
        Known(CHILD, "agent:c:subagent:m:subagent:c", parent=ME, root=ROOT),
        Known(GRANDCHILD, "agent:c:subagent:g", parent=CHILD, root=ROOT),
        Known(SIBLING, "agent:c:subagent:s", parent=ROOT, root=ROOT),
        Known(STRANGER, "agent:a:telegram:direct:X"),
    )

    def seen(self, visibility):
        caller = Caller(ME, "b", visibility)
        found = set()
        for row in self.ROWS:
            for text in (row.id, row.key):
                try:
                    assert find_visible(text, caller, self.ROWS) == row
                except UnknownNameError:
                    continue
                found.add(row.id)
        return found

    def test_what_each_visibility_shows_row_26(self):
        assert self.seen("tree") == {ROOT, ME, CHILD, GRANDCHILD, SIBLING}
        assert self.seen("spawned") == {ME, CHILD, GRANDCHILD}
        assert self.seen("workspace") == {row.id for row in self.ROWS}

    def test_what_is_hidden_is_answered_like_what_is_not_there(self):
        caller = Caller(ME, "b")
        answers = set()
        for text, rows in (("agent:a:telegram:dm:X", self.ROWS), ("agent:a:telegram:dm:X", self.ROWS[:5])):
            with pytest.raises(UnknownNameError) as caught:
                find_visible(text, caller, rows)
            answers.add(str(caught.value))
        assert len(answers) == 1
        assert STRANGER not in answers.pop()

    @pytest.mark.parametrize(
        "text",
        ["../../etc/passwd", "/etc/passwd", "C:\\x", "agent:a:../x:main", "global", "", "a\0b", "\x1b[2J"],
    )
    def test_a_path_is_no_session_and_neither_is_a_reserved_word(self, text):
        with pytest.raises(HaloError):
            find_visible(text, Caller(ME, "b", "workspace"), self.ROWS)

    def test_parents_that_go_in_a_circle_end(self):
        rows = [Known(ME, "agent:a:x", parent=CHILD), Known(CHILD, "agent:a:y", parent=ME), self.ROWS[0]]
        assert find_visible("agent:a:y", Caller(ME, "a", "spawned"), rows).id == CHILD
        with pytest.raises(UnknownNameError):
            find_visible(ROOT, Caller(ME, "a", "spawned"), rows)

    @pytest.mark.parametrize("text", ["hook:5e1f", "cron:nightly", "node-kitchen", "notes", "agent:a:notes"])
    def test_a_program_may_name_a_session_of_its_own(self, text):
        assert own_key(text, "a").agent == "a"

    @pytest.mark.parametrize(
        "text",
        ["main", "direct:P", "telegram:direct:P", "agent:a:telegram:group:G", "agent:b:hook:1", "subagent:u"],
    )
    def test_but_none_of_another_agent_or_of_those_who_write(self, text):
        with pytest.raises(SessionKeyError):
            own_key(text, "a")
