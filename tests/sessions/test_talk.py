"""Turns in sessions: what is recorded, what is shown, and which error the user sees."""

import asyncio
import errno
import os

import msgspec
import pytest
from histories import fit
from hypothesis import given, settings
from hypothesis import strategies as st
from making import agent, body, compiled
from playing import Bench, Player, calls, says

from halo.errors import LogError, ProviderError
from halo.files import ops
from halo.models.adapter import Notice, TextDelta
from halo.records.artifacts import Artifact
from halo.records.events import NAMES, TYPES, MessageAdded, TurnEnded, TurnStarted
from halo.records.messages import ToolResult, user
from halo.records.targets import AgentTarget
from halo.runner.record import History
from halo.runner.slots import fill
from halo.runner.turn import Turn, run_turn
from halo.sessions import derived
from halo.sessions.choice import Choice, choose
from halo.sessions.derived import read_header
from halo.sessions.desk import Desk
from halo.sessions.talk import run_talk
from halo.sessions.values import Moment, slot_values
from halo.workspace.trust import Grants

SECOND = 10**9


class Clock:
    """A second passes with every look."""

    def __init__(self):
        self.ns = 1_790_000_000_000_000_000

    def __call__(self):
        self.ns += SECOND
        return self.ns


class Office:
    """A workspace, and turns in it with a played model."""

    def __init__(self, ws):
        self.ws = ws
        self.sessions = str(ws.halo / "sessions")
        self.shown = []
        self.desk = Desk(ws.builder, {}, str(ws.home / "cache"), Clock())

    def talk(self, player, choice=None, show=None):
        self.desk.adapter = lambda _artifact, _agent: player
        choice = choice or choose(self.sessions, "a", "cli", home=self.sessions, named=None, new=False)
        return run_talk(self.desk, choice, "Go.", show or self.shown.append, frozen=False)

    @property
    def notices(self):
        return [event.text for event in self.shown if isinstance(event, Notice)]

    @property
    def folder(self):
        return choose(self.sessions, "a", "cli", home=self.sessions, named=None, new=False).folder

    def recorded(self):
        return [(e, msgspec.json.decode(e.data, type=TYPES[e.type])) for e in self.folder.read_events()]


@pytest.fixture
def office(make_workspace):
    ws = make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(name="Ada"),
            ".halo/agents/a/AGENT.md": "You are a. It is {{now}} in {{working_dir}}, says {{agent_name}}.\n",
            "pkg/.halo/INSTRUCTIONS.md": "PKG RULES\n",
        }
    ).without_templates()
    return Office(ws)


def test_a_reply_says_its_format_and_what_the_turn_came_to(office):
    reply = office.talk(Player(says("Hello.")))
    assert reply.format == 1
    assert next(iter(msgspec.to_builtins(reply))) == "format"
    assert (reply.agent, reply.turn, reply.text, reply.reason) == ("a", 1, "Hello.", "done")
    assert read_header(office.folder).turns == 1
    assert office.notices == []


def test_a_refusal_is_no_success(office):
    reply = office.talk(Player(says("I will not."), stop="refusal"))
    assert reply.reason == "refusal"
    assert office.folder.read().ended == TurnEnded("refusal")


def test_the_prompt_of_a_turn_can_be_rendered_again(office):
    """`{{now}}` is the time of `turn.started`: the artifact and the session tell all that the model was told."""
    for turn in (1, 2):
        player = Player(says("Hello."))
        office.talk(player)
        event, started = [(e, d) for e, d in office.recorded() if isinstance(d, TurnStarted)][-1]
        assert event.turn == turn
        artifact = office.ws.builder.store.load(started.artifact)
        moment = Moment.of(artifact, str(office.ws.root), event.ts)
        values, _ = slot_values(artifact.manifest.slots, moment, office.desk.tree, {}, Grants())
        assert player.requests[0].prefix.system == fill(artifact, values).text
        assert f"It is {event.ts} in {office.ws.root}, says Ada." in player.requests[0].prefix.system


def test_a_moment_is_made_of_the_artifact_the_workspace_and_a_time():
    made = compiled(body("x"), AgentTarget("a", directory="pkg/api"))
    artifact = Artifact("id", made.prompt, made.manifest)
    moment = Moment.of(artifact, os.path.join(os.sep, "w"), "T")
    assert moment.working_dir == os.path.join(os.sep, "w", "pkg/api")
    assert (moment.workspace_root, moment.now) == (os.path.join(os.sep, "w"), "T")
    assert Moment.of(artifact, os.sep, "T").working_dir == os.path.join(os.sep, "pkg/api")


def test_a_session_goes_on_as_what_it_was_begun_as(office):
    """A session of a sub-agent in a directory is run from that artifact, not silently as root."""
    target = AgentTarget("a", "sub", "pkg")
    first, second = Player(says("1")), Player(says("2"))
    session = office.talk(first, Choice(office.sessions, office.sessions, None, target, "parent")).session
    office.talk(second, choose(office.sessions, None, "cli", home=office.sessions, named=session, new=False))
    for player in (first, second):
        assert "PKG RULES" in player.requests[0].prefix.system
        assert str(office.ws.root / "pkg") in player.requests[0].prefix.system
    folder = choose(office.sessions, None, "cli", home=office.sessions, named=session, new=False).folder
    artifacts = {
        msgspec.json.decode(e.data, type=TurnStarted).artifact
        for e in folder.read_events()
        if e.type == "turn.started"
    }
    assert [office.ws.builder.store.load(a).manifest.target for a in artifacts] == [target]
    # Nothing of it is the user's own conversation with that agent.
    assert choose(office.sessions, "a", "cli", home=office.sessions, named=None, new=False).folder is None


# which error the user sees


BROKEN = ProviderError("the model broke off")


def in_the_way(name):
    """Something else stands where a derived file should be."""

    def put(office, _monkeypatch):
        path = os.path.join(office.folder.path, name)
        os.unlink(path)
        os.mkdir(path)

    return put


def refused(number):
    """The system takes no derived file."""

    def put(_office, monkeypatch):
        def fail(path, *_arguments, **_options):
            raise OSError(number, os.strerror(number), path)

        monkeypatch.setattr(derived, "replace_file", fail)
        monkeypatch.setattr(derived, "_append", fail)

    return put


HINDRANCES = {
    "folder for the transcript": in_the_way("transcript.md"),
    "folder for the header": in_the_way("session.json"),
    "full disk": refused(errno.ENOSPC),
    "read-only": refused(errno.EROFS),
}


@pytest.mark.parametrize("hindrance", HINDRANCES)
@pytest.mark.parametrize("reply", [says("Hello."), BROKEN], ids=["turn succeeds", "turn fails"])
def test_derived_files_never_decide_what_a_turn_comes_to(office, monkeypatch, hindrance, reply):
    office.talk(Player(says("First.")))
    HINDRANCES[hindrance](office, monkeypatch)
    if reply is BROKEN:
        with pytest.raises(ProviderError, match="the model broke off"):
            office.talk(Player(reply))
    else:
        assert office.talk(Player(reply)).text == "Hello."
    (notice,) = office.notices
    assert "not up to date" in notice
    assert read_header(office.folder).turns == 2


@pytest.mark.parametrize("reply", [says("Hello."), BROKEN], ids=["turn succeeds", "turn fails"])
def test_a_reader_who_is_gone_when_a_notice_is_shown_changes_nothing(office, monkeypatch, reply):
    office.talk(Player(says("First.")))
    refused(errno.ENOSPC)(office, monkeypatch)

    def show(event):
        if isinstance(event, Notice):
            raise BrokenPipeError

    if reply is BROKEN:
        with pytest.raises(ProviderError):
            office.talk(Player(reply), show=show)
    else:
        assert office.talk(Player(reply), show=show).text == "Hello."


def fail_log(monkeypatch, *, when):
    """From the append on for which `when(line)` holds, the disk takes nothing more of the log."""
    real, failed = ops.write_all, []

    def write_all(fd, path, data):
        if path.endswith("events.jsonl") and (failed or when(data)):
            failed.append(data)
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({len(failed)})")
        real(fd, path, data)

    monkeypatch.setattr(ops, "write_all", write_all)
    return failed


def test_the_first_error_of_a_full_disk_is_the_one_that_is_raised(office, monkeypatch):
    """Nothing is tried a second time; the next one who opens the session mends it."""
    with monkeypatch.context() as patch:
        failed = fail_log(patch, when=lambda line: b'"usage"' in line)
        with pytest.raises(LogError, match=r"No space left on device \(1\)"):
            office.talk(Player(says("Hello.")))
    assert len(failed) == 1
    assert any("is not recorded" in notice for notice in office.notices)
    office.talk(Player(says("Again.")))
    recorded = [data for _, data in office.recorded()]
    assert [d.reason for d in recorded if isinstance(d, TurnEnded)] == ["interrupted", "done"]
    assert [e.seq for e, _ in office.recorded()] == list(range(1, len(recorded) + 1))


def test_a_full_disk_does_not_hide_what_broke_the_turn(office, monkeypatch):
    with monkeypatch.context() as patch:
        fail_log(patch, when=lambda line: b"Half an" in line)
        with pytest.raises(ProviderError, match="the model broke off"):
            office.talk(Player(BROKEN))
    assert any("No space left" in notice for notice in office.notices)
    assert read_header(office.folder).turns == 1


def test_text_that_cannot_be_written_does_not_keep_a_turn_open(office):
    """Half of a surrogate pair has no UTF-8 form. The turn fails, and is over."""
    with pytest.raises(UnicodeEncodeError):
        office.talk(Player(says("\ud83d")))
    assert office.folder.read().ended.reason == "error"


def test_a_consumer_that_fails_closes_the_stream_before_the_adapter(office):
    player = Player(None)

    def show(event):
        if isinstance(event, TextDelta):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        office.talk(player, show=show)
    assert player.order == ["stream opened", "stream closed", "adapter closed"]
    ended = office.folder.read().ended
    assert ended.reason == "error"
    assert "BrokenPipeError" in ended.error


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt, asyncio.CancelledError])
def test_at_whatever_event_the_reader_goes_the_turn_ends_once_and_whole(office, error):
    """One session, whose reader goes one event later each time, until it stays to the end."""
    gone, count = True, 0
    while gone:
        seen, left = (office.folder.read().seq if office.folder else 0), count

        def show(_event):
            nonlocal left
            if left == 0:
                raise error
            left -= 1

        try:
            office.talk(Player(calls("a", "b"), says("Done.")), show=show)
            gone = False
        except error:
            pass
        conversation = office.folder.read()
        ended = [d for e, d in office.recorded() if e.seq > seen and isinstance(d, TurnEnded)]
        assert len(ended) == 1
        assert fit(conversation.history())
        assert not conversation.open_turn
        count += 1
    assert count > 6


def test_cancelling_closes_the_stream_before_the_adapter(office):
    player = Player(None)
    office.desk.adapter = lambda _artifact, _agent: player

    def show(event):
        if isinstance(event, TextDelta):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        office.talk(player, show=show)
    assert player.order == ["stream opened", "stream closed", "adapter closed"]
    assert office.folder.read().ended == TurnEnded("interrupted")
    assert office.folder.read().messages[-1] == says("Half an ")


# what the user is told of a session


def test_damage_is_told_once_a_turn_and_not_kept_from_anybody(office):
    office.talk(Player(says("Hello.")))
    with open(office.folder.events, "r+b") as file:
        data = file.read()
        file.seek(data.index(b"Hello."))
        file.write(b"XXXXX")
    player = Player(says("Again."))
    office.talk(player)
    (notice,) = office.notices
    assert office.folder.id in notice
    assert "line 4" in notice
    assert player.requests[0].messages == (user("Go."), user("Go."))


def test_what_was_passed_over_is_told(office):
    choice = choose(office.sessions, "a", "cli", home=office.sessions, named=None, new=True)
    office.talk(Player(says("Hello.")), choice._replace(notices=("passed over",)))
    assert office.notices == ["passed over"]


# what goes round: the model's messages, the log, the next request


IDS = st.lists(st.sampled_from(["a", "b", "a_2", ""]), min_size=1, max_size=3)
TURNS = st.lists(st.lists(IDS, max_size=3), min_size=1, max_size=3)


@settings(max_examples=40)
@given(TURNS)
def test_memory_and_log_tell_the_same_whatever_ids_a_model_gives(tmp_path_factory, turns):
    """Replay is byte for byte, and each call has its own result."""
    made = compiled(body("You are a."))
    artifact = Artifact("id", made.prompt, made.manifest)
    bench, clock = Bench(), Clock()
    choice = Choice(
        str(tmp_path_factory.mktemp("s")), str(tmp_path_factory.mktemp("h")), None, AgentTarget("a"), "cli"
    )

    async def one(session, rounds):
        player = Player(*(calls(*ids) for ids in rounds), says("Done."))
        session.append(TurnStarted("artifact", "print"), turn=session.conversation.turn + 1)
        session.append(MessageAdded(user("Go.")))
        turn = Turn(artifact, fill(artifact, {}), History(session.conversation.history()))
        async for event in run_turn(turn, player, bench):
            if type(event) in NAMES:
                session.append(event)
        assert player.requests[-1].messages == session.conversation.history()[:-1]

    for rounds in turns:
        with choice.open(clock) as session:
            asyncio.run(one(session, rounds))
            told, choice = session.conversation.history(), choice._replace(folder=session.folder)
        assert msgspec.json.encode(choice.folder.read().history()) == msgspec.json.encode(told)
    made_calls = [call.id for message in told for call in message.calls]
    results = [b for message in told for b in message.content if isinstance(b, ToolResult)]
    assert len(set(made_calls)) == len(made_calls) == len(bench.ran)
    assert [r.call_id for r in results] == made_calls
    assert [r.text for r in results] == [f"result {n}" for n in range(1, len(results) + 1)]
