"""Which session a message reaches, and why; `halo session route` says it of real sessions."""

import datetime as dt
import json
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, tree

from halo.checks.checking import check
from halo.checks.subject import take
from halo.errors import SessionKeyError
from halo.files.seal import machine_key
from halo.records.events import MessageAdded, TurnStarted
from halo.records.incoming import Sender, Source
from halo.records.messages import Message, Text
from halo.records.origins import Origin
from halo.records.session_events import SessionChanged, SessionCreated, SessionRolledOver, SessionTarget
from halo.records.targets import AgentTarget
from halo.sessions.find import session_seal
from halo.sessions.folder import SessionFolder
from halo.sessions.routing.explaining import explain
from halo.sessions.routing.finding import sessions_of
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.inbound import Inbound, merged, origin_of, updated, without
from halo.sessions.routing.known import Known
from halo.sessions.routing.route import route
from halo.workspace.settings.sessions import SessionSettings

NOW = dt.datetime(2026, 5, 2, 12, tzinfo=dt.UTC)
ONE, TWO = "20260501t100000-aaaaaa", "20260502t100000-bbbbbb"
YESTERDAY = "2026-05-01T10:00:00Z"


def session(**fields):
    return msgspec.convert(fields, SessionSettings)


def inbound(text="Hi", **fields):
    return Inbound("telegram", text=text, **{"peer": "U7", "authorised": True, **fields})


def row(session_id=ONE, **fields):
    fields.setdefault("interacted_at", YESTERDAY)
    return Known(session_id, fields.pop("key", "agent:a:main"), YESTERDAY, **fields)


def routed(*rows, message=None, **settings):
    return route(session(**settings), "a", message or inbound(), rows, NOW, zone="Europe/Oslo")


DAILY = {"reset": {"mode": "daily"}}


class TestRoutes:
    def test_a_key_without_a_session_begins_one(self):
        found = routed(row(key="agent:b:main"))
        assert (found.action, found.session, found.previous) == ("new", "", "")
        assert found.key.text == "agent:a:main"

    def test_the_session_of_the_key_goes_on(self):
        found = routed(row(), row("20260501t120000-cccccc", key="agent:a:direct:U7"))
        assert (found.action, found.session, found.previous) == ("continue", ONE, "")

    def test_the_newest_that_is_open(self):
        found = routed(row(successor=TWO), row(TWO))
        assert (found.action, found.session, found.previous) == ("continue", TWO, ONE)

    def test_an_archived_one_is_not_woken(self):
        found = routed(row(settings={"archived": "yes"}))
        assert (found.action, found.session, found.previous) == ("new", "", ONE)

    def test_a_rule_ends_it_and_the_reason_is_known_row_15(self):
        found = routed(row(), **DAILY)
        assert (found.action, found.session, found.previous) == ("rollover", "", ONE)
        assert found.reset.reason == "daily"
        assert found.reset.inputs["interacted_at"] == YESTERDAY
        assert f"session  a new one; {ONE} ends (daily)" in explain(found)

    def test_without_a_rule_nothing_ends_row_15(self):
        old = row(interacted_at="2020-01-01T00:00:00Z")
        assert routed(old).action == "continue"

    def test_a_trigger_ends_it_and_the_rest_is_passed_on(self):
        found = routed(row(), message=inbound("/new What now?"))
        assert (found.action, found.previous, found.text) == ("rollover", ONE, "What now?")
        assert routed(row(), message=inbound("/reset")).text == ""

    def test_a_trigger_before_there_is_a_session(self):
        found = routed(message=inbound("/new What now?"))
        assert (found.action, found.text, found.reset.due) == ("new", "What now?", False)

    def test_a_trigger_of_who_may_not_is_text(self):
        found = routed(row(), message=inbound("/new x", authorised=False))
        assert (found.action, found.text) == ("continue", "/new x")
        assert "may not reset" in found.warnings[0]

    def test_a_turn_that_runs_puts_the_reset_off_row_14(self):
        found = routed(row(active=True), **DAILY)
        assert (found.action, found.session, found.reset.deferred) == ("continue", ONE, True)
        assert any("put off, because a turn runs: daily" in line for line in explain(found))

    def test_an_event_ends_nothing_row_16(self):
        found = routed(row(), message=inbound("/new", event="heartbeat"), **DAILY)
        assert (found.action, found.session, found.text) == ("continue", ONE, "/new")
        assert found.warnings == ()
        assert any("ends no session" in line for line in explain(found))

    def test_what_the_user_chose_goes_on_row_27(self):
        chosen = {"model": "openai/m", "label": "tides", "title": "Old", "send": "deny"}
        found = routed(row(settings=chosen), message=inbound("/new"))
        assert found.settings == {"model": "openai/m", "label": "tides", "send": "deny"}
        assert not found.send.allowed
        assert "         takes over label tides, model openai/m, send deny" in explain(found)
        assert routed(row(settings=chosen)).settings == {}

    def test_the_policy_of_the_channel(self):
        found = routed(row(), reset_by_channel={"telegram": {"idle_minutes": 10}})
        assert (found.reset.reason, found.policy.source) == ("idle", "reset_by_channel.telegram")

    def test_a_zone_of_a_policy_that_is_unknown_here_is_told(self):
        found = routed(row(), reset={"mode": "daily", "time_zone": "Nowhere/Else"})
        assert found.reset.inputs["time_zone"] == "Europe/Oslo"
        assert "Nowhere/Else" in found.warnings[0]

    def test_nobody_reaches_nothing(self):
        with pytest.raises(SessionKeyError):
            routed(row(), message=inbound(peer=""))

    @given(
        st.lists(
            st.builds(
                Known,
                st.sampled_from([ONE, TWO, "20260503t100000-cccccc"]),
                st.sampled_from(["agent:a:main", "agent:a:direct:U7", "global", ""]),
                st.just(YESTERDAY),
                active=st.booleans(),
                successor=st.sampled_from(["", TWO]),
                settings=st.sampled_from([{}, {"archived": "yes"}]),
            ),
            unique_by=lambda known: known.id,
        ),
        st.sampled_from(["Hi", "/new", "/new x"]),
        st.sampled_from(["", "cron"]),
        st.sampled_from([{}, DAILY]),
        st.sampled_from(["main", "per-peer"]),
    )
    def test_a_message_reaches_an_open_session_of_its_key_or_a_new_one(self, rows, text, event, rest, scope):
        found = routed(*rows, message=inbound(text, event=event), dm_scope=scope, **rest)
        reached = [each for each in rows if each.id == found.session]
        assert bool(reached) == (found.action == "continue")
        assert all(each.open and each.key == found.key.text for each in reached)
        assert found.previous in ("", *(each.id for each in rows if each.key == found.key.text))
        assert found.action != "rollover" or (found.reset.due and found.reset.reason)
        assert explain(found)


class TestSharing:
    """Row 25: what several senders share is said."""

    ANOTHER = row(origin=Origin(provider="telegram", sender="U1"))

    def test_another_sender_in_the_same_session_row_25(self):
        (warning,) = routed(self.ANOTHER).warnings
        assert warning == (
            "another sender writes in this session: telegram:U1; general.session.dm_scope keeps them apart"
        )

    def test_the_same_id_on_another_channel_row_25(self):
        other = row(key="agent:a:direct:U7", origin=Origin(provider="discord", sender="U7"))
        assert "discord:U7" in routed(other, dm_scope="per-peer").warnings[0]

    def test_not_the_same_sender_a_linked_person_or_a_group(self):
        assert routed(row(origin=Origin(provider="telegram", sender="U7"))).warnings == ()
        links = {"alice": ["telegram:U7", "discord:D7"]}
        alice = row(key="agent:a:direct:~alice", origin=Origin(provider="discord", sender="D7"))
        assert routed(alice, dm_scope="per-peer", identity_links=links).warnings == ()
        group = row(key="agent:a:telegram:group:G", origin=Origin(provider="telegram", sender="U1"))
        assert routed(group, message=inbound(chat_type="group", group="G")).warnings == ()

    def test_apart_they_do_not_meet_row_25(self):
        found = routed(self.ANOTHER, dm_scope="per-channel-peer")
        assert (found.action, found.warnings) == ("new", ())


class TestExplanation:
    def test_a_whole_one(self):
        rest = {"reset": {"mode": "daily", "at_hour": 5, "idle_minutes": 2_000}}
        found = routed(row(key="agent:a:telegram:direct:U7"), dm_scope="per-channel-peer", **rest)
        pause = "after 2,000 minutes without a person's message"
        policy = f"daily at 05:00 Europe/Oslo or {pause} (general.session.reset)"
        assert explain(found) == [
            "key      agent:a:telegram:direct:U7  (direct)",
            "         dm_scope is per-channel-peer",
            f"session  a new one; {ONE} ends (daily)",
            f"reset    {policy}; was over at 2026-05-02T03:00:00.000Z without a message before",
            "send     allowed: the default of send_policy is allow",
        ]

    @given(st.text(min_size=1).filter(str.strip), st.text())
    def test_no_line_acts_on_a_terminal(self, peer, text):
        found = routed(message=inbound("/new " + text, peer=peer), dm_scope="per-peer")
        for line in explain(found):
            assert line.isprintable()


class TestOrigin:
    ENVELOPE = inbound(
        account="shop", to="bot", thread="t", name="Mira", label="", surface="app", chat_type="dm"
    )
    ORIGIN = Origin("Mira", "telegram", "app", "thread", "U7", "bot", "shop", "t")

    def test_what_an_envelope_says(self):
        assert origin_of(self.ENVELOPE) == self.ORIGIN
        group = inbound(chat_type="group", group="G", name="Mira", label="Sailors")
        assert origin_of(group) == Origin("Sailors", "telegram", "", "group", "U7", "G")
        assert origin_of(inbound(chat_type="group", group="G", topic="7")).thread == "7"

    def test_what_is_missing_never_erases(self):
        assert merged(self.ORIGIN, Origin()) == self.ORIGIN
        assert merged(self.ORIGIN, Origin(sender="U8", to="")).sender == "U8"
        assert merged(self.ORIGIN, Origin(sender="U8")).to == "bot"

    @given(*[st.builds(Origin, *[st.sampled_from(["", "x", "y"])] * 8)] * 2)
    def test_later_values_overwrite(self, earlier, later):
        both = merged(earlier, later)
        for name in Origin.__struct_fields__:
            assert getattr(both, name) == (getattr(later, name) or getattr(earlier, name))
        assert merged(both, later) == both

    def test_taking_back_is_a_step_of_its_own(self):
        assert without(self.ORIGIN, ["thread", "label"]) == msgspec.structs.replace(
            self.ORIGIN, thread="", label=""
        )

    def test_what_programs_send_leaves_the_way_of_replies(self):
        assert updated(self.ORIGIN, inbound(peer="cron", to="nobody", event="cron")) == self.ORIGIN
        assert updated(self.ORIGIN, inbound(peer="U8", to="bot2")).to == "bot2"


# on disk


def begin(ws, session_id, key, *events, seal=None, parent=""):
    """A session on disk as the engine begins one."""
    clock = iter(range(1_777_630_000_000_000_000, 1_777_640_000_000_000_000, 1_000_000_000))
    folder = SessionFolder(str(ws.halo / "sessions"), session_id)
    own = machine_key(str(ws.home), make=True)
    sealed = session_seal(own, session_id) if seal is None else seal
    with folder.open(lambda: next(clock), create=True) as opened:
        target = SessionTarget.of(AgentTarget("a"))
        opened.append(SessionCreated(session_id, target, "telegram", sealed, key=key, parent=parent), turn=0)
        for data in events:
            opened.append(data)
    return folder


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(),
            ".halo/agents/a/AGENT.md": "You are a.\n",
            ".halo/settings.yaml": "general:\n  prompt: {time_zone: Europe/Oslo}\n"
            "  session: {dm_scope: per-channel-peer, reset: {mode: daily}}\n",
        }
    )


def told(ws, *arguments, **options):
    done = ws.cli("session", "route", "-a", "a", "--channel", "telegram", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done


KEY = "agent:a:telegram:direct:U7"
HI = MessageAdded(Message("user", (Text("Hi"),)), sources=(Source("1", Sender("user")),))
TICK = MessageAdded(Message("user", (Text("Tick"),)), sources=(Source("2", Sender("event")),))


class TestOnDisk:
    def found(self, ws, key=KEY):
        return sessions_of(str(ws.halo / "sessions"), str(ws.home), parse_key(key))

    def test_what_a_log_says_row_16(self, ws):
        folder = begin(ws, ONE, KEY, HI, SessionChanged("model", "openai/m"), TICK, parent=TWO)
        begin(ws, TWO, "agent:a:telegram:direct:U8")
        ((known,), notices) = self.found(ws)
        assert notices == ()
        assert (known.id, known.key, known.parent, known.settings) == (ONE, KEY, TWO, {"model": "openai/m"})
        assert known.started_at < known.interacted_at < folder.read().updated_at
        assert known.open
        assert not known.active

    def test_every_session_of_a_key_and_what_ended_row_20(self, ws):
        begin(ws, ONE, KEY, HI, SessionRolledOver(TWO, "daily"))
        begin(ws, TWO, KEY)
        assert {known.id: known.open for known in self.found(ws).rows} == {ONE: False, TWO: True}

    def test_a_damaged_first_line_costs_nothing(self, ws):
        created = SessionCreated(ONE, SessionTarget.of(AgentTarget("a")), "telegram", key=KEY)
        sealed = msgspec.structs.replace(
            created, seal=session_seal(machine_key(str(ws.home), make=True), ONE)
        )
        folder = begin(ws, ONE, KEY, TurnStarted("x", "y", session=sealed))
        with open(folder.events, "r+b") as log:
            log.write(b"#")
        assert [known.id for known in self.found(ws).rows] == [ONE]

    def test_a_session_that_came_with_the_folder_is_reached_by_nobody(self, ws):
        begin(ws, ONE, KEY, seal="0" * 32)
        rows, (notice,) = self.found(ws)
        assert rows == ()
        assert "begun elsewhere" in notice

    def test_a_turn_that_runs_is_known_and_one_that_died_is_none(self, ws):
        folder = begin(ws, ONE, KEY, HI)
        with folder.open(lambda: 1_777_650_000_000_000_000) as opened:
            opened.append(TurnStarted("x", "y"), turn=1)
            done = told(ws, "--peer", "U7", "--format", "json")
            route_now = json.loads(done.stdout)
            assert (route_now["session"], route_now["reset"]["deferred"]) == (ONE, True)
            opened._log.close()  # the process dies: its lock goes with it, the turn stays open
        ((known,), _) = self.found(ws)
        assert not known.active


class TestCommand:
    def test_it_explains(self, ws):
        begin(ws, ONE, KEY, HI)
        lines = told(ws, "--peer", "U7").stdout.splitlines()
        assert lines[:3] == [
            f"key      {KEY}  (direct)",
            "         dm_scope is per-channel-peer",
            f"session  a new one; {ONE} ends (daily)",
        ]
        assert "daily at 04:00 Europe/Oslo" in lines[3]

    def test_it_changes_nothing(self, ws):
        folder = begin(ws, ONE, KEY, HI)
        before = {p: p.read_bytes() for p in ws.halo.rglob("*") if p.is_file()}
        told(ws, "--peer", "U7", "--text", "/new")
        assert {p: p.read_bytes() for p in ws.halo.rglob("*") if p.is_file()} == before
        assert folder.read().standing.successor is None

    def test_as_json_with_every_kind_of_place(self, ws):
        options = [
            "--type",
            "channel",
            "--group",
            "C1",
            "--thread",
            "17.3",
            "--account",
            "x",
            "--text",
            "/new a",
        ]
        found = json.loads(told(ws, *options, "--peer", "U7", "--format", "json").stdout)
        assert found["key"] == "agent:a:telegram:channel:C1:thread:17.3"
        assert (found["kind"], found["action"], found["text"], found["trigger"]) == (
            "thread",
            "new",
            "a",
            "/new",
        )
        assert found["origin"] == {
            "label": "C1",
            "provider": "telegram",
            "chat_type": "thread",
            "sender": "U7",
            "to": "C1",
            "account": "x",
            "thread": "17.3",
        }
        assert found["policy"]["mode"] == "daily"

    def test_an_event(self, ws):
        begin(ws, ONE, KEY, HI)
        found = told(ws, "--peer", "U7", "--event", "heartbeat").stdout
        assert f"{ONE} goes on" in found

    def test_bytes_that_are_no_text(self, ws):
        found = told(ws, "--peer", b"\xff\x1b[2J").stdout
        assert found.startswith("key      agent:a:telegram:direct:%ed%b3%bf%1b%5b2J  (direct)")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--channel", "telegram"], "needs an id"),
            (["--channel", "tele:gram", "--peer", "x"], "not a name for a channel"),
            (["--channel", "telegram", "--peer", "x", "-a", "b"], "unknown agent 'b'"),
            (["--peer", "x"], "--channel"),
            (["--channel", "telegram", "--type", "circle"], "circle"),
        ],
    )
    def test_a_mistake_is_told(self, ws, arguments, said):
        done = ws.cli("session", "route", *(["-a", "a"] if "-a" not in arguments else []), *arguments)
        assert done.returncode == 2
        assert said in done.stderr

    def test_no_such_command(self, ws):
        done = ws.cli("session", "rout")
        assert done.returncode == 2
        assert "did you mean 'route'" in done.stderr


class TestChecks:
    FILES: ClassVar = {
        ".halo/agents/default/agent.yaml": agent(description="d"),
        ".halo/agents/default/AGENT.md": "You are.\n",
    }

    def findings(self, text, machine=""):
        files = {**self.FILES, ".halo/settings.yaml": "general:\n  session:\n" + text}
        if machine:
            files["secrets:settings.yaml"] = "general:\n  session:\n" + machine
        codes = ("shared-direct-scope", "identity-link", "idle-reset", "does-not-compile")
        return [(f.code, f.line, f.message) for f in check(take(tree(files))).findings if f.code in codes]

    def test_several_senders_who_share_one_scope_row_25(self):
        links = "    identity_links:\n      ada: [telegram:1]\n      bob: [telegram:2]\n"
        ((code, line, message),) = self.findings(links)
        assert (code, line) == ("shared-direct-scope", 3)
        assert message.startswith(
            "identity_links name 2 people, and their direct messages reach the main session"
        )
        assert self.findings("    dm_scope: main\n" + links)[0][1] == 3
        assert self.findings("    dm_scope: per-peer\n" + links) == []

    def test_a_channel_where_nobody_chose_a_scope_row_25(self):
        channel = "    reset_by_channel:\n      Telegram: {idle_minutes: 9}\n"
        ((_, _, message),) = self.findings(channel)
        assert message.startswith("whoever writes by telegram shares one session")
        assert self.findings("    dm_scope: main\n" + channel) == []
        assert self.findings(channel, machine="    dm_scope: per-peer\n") == []
        assert self.findings("    reset: {idle_minutes: 9}\n") == []

    def test_links_that_match_nobody_or_two(self):
        found = self.findings(
            "    dm_scope: per-peer\n    identity_links:\n      ada:\n        - telegram:1\n        - '123'\n"
            "      bob: [Telegram:1]\n"
        )
        assert [(code, line) for code, line, _ in found] == [("identity-link", n) for n in (6, 7, 8)]
        said = [message for _, _, message in found]
        assert said[0] == "'telegram:1' is linked to 'bob', too: neither counts"
        assert said[1].startswith("'123' matches nobody")
        assert "linked to 'ada', too" in said[2]

    @pytest.mark.parametrize(
        ("text", "lines"),
        [
            ("    reset: {mode: daily, at_hour: 3, idle_minutes: 9}\n", []),
            ("    reset: {idle_minutes: 0}\n", []),
            ("    reset: {mode: idle}\n", [3]),
            ("    reset:\n      mode: never\n      at_hour: 0\n      idle_minutes: 5\n", [5, 6]),
            ("    reset:\n      mode: idle\n      idle_minutes: 5\n      time_zone: Europe/Oslo\n", [6]),
            ("    reset: {mode: never, at_hour: 3}\n    reset_by_type: {dm: {mode: daily}}\n", []),
            ("    reset: {mode: never}\n    reset_by_type:\n      group:\n        idle_minutes: 5\n", [6]),
            ("    reset: {idle_minutes: 5}\n    reset_by_type: {group: {mode: idle}}\n", []),
            ("    dm_scope: main\n    reset_by_channel:\n      x:\n        mode: idle\n", [6]),
        ],
    )
    def test_resets_that_do_nothing(self, text, lines):
        assert [(code, line) for code, line, _ in self.findings(text)] == [("idle-reset", n) for n in lines]

    def test_the_two_words_for_one_type_in_two_files(self):
        found = self.findings(
            "    reset_by_type: {dm: {mode: daily}}\n", machine="    reset_by_type: {direct: {mode: never}}\n"
        )
        assert [message for _, _, message in found] == [
            "reset_by_type.dm: direct is there, too, and serves in its place"
        ]
