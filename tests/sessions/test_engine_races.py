"""Sessions of one process between whom something goes wrong: cancelled, full, held elsewhere, gone, broken."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from making import agent
from playing import Player, says
from test_delegation import LEAD, Script, Team, call, cut, json_of, query, start
from test_engine import Busy, Putting

from halo.errors import LogError, ProviderError, UnknownNameError
from halo.models.adapter import Notice, TextDelta
from halo.records.events import TurnEnded
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.messages import Message, ToolCall
from halo.records.session_events import ReportSent
from halo.records.stops import FORMAT as STOP
from halo.records.stops import Stop
from halo.sessions.choice import choose
from halo.sessions.delegation.answers import outcome_of
from halo.sessions.engine import holding
from halo.sessions.engine import worker as workers
from halo.sessions.engine.engine import Engine
from halo.sessions.engine.worker import Worker, waiting_sessions
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.attention import Attention
from halo.sessions.inbox.control import request_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import marked, unmark
from halo.sessions.reply import Began
from halo.sessions.talk import Foreground, run_typed, typed

ONE_AT_A_TIME = "general:\n  session:\n    delegation: {concurrency: 1}\n"


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/lead/agent.yaml": agent(**{**LEAD, "budgets": {}}),
        ".halo/agents/lead/AGENT.md": "You lead.\n",
        ".halo/agents/worker/agent.yaml": agent(name="Worker", tools=["grep"], team=["helper"]),
        ".halo/agents/worker/AGENT.md": "You work.\n",
        ".halo/agents/helper/agent.yaml": agent(name="Helper", tools=["grep"]),
        ".halo/agents/helper/AGENT.md": "You help.\n",
    }
    return Family(make_workspace(files).without_templates())


class Family(Team):
    """A team any of whose sessions can be woken."""

    def at(self, session_id):
        return SessionFolder(self.sessions, session_id)

    def put_for(self, folder, text):
        message = Incoming(FORMAT, text, "", text, Sender("user", owner=True))
        Inbox(folder.path).put(message, self.desk.now_ns())

    def wake_all(self, *folders, **players):
        self.players = {"lead": Script(), **{name: Script(*replies) for name, replies in players.items()}}
        self.desk.adapter = lambda _artifact, target: self.players[target.agent]

        async def go():
            engine = Engine(self.desk, lambda _session, event: self.shown.append(event))
            for folder in folders:
                engine.wake(folder.id)
            await engine.settled()

        asyncio.run(go())


@pytest.fixture
def desk(make_workspace):
    files = {
        ".halo/agents/a/agent.yaml": agent(tools=["grep"]),
        ".halo/agents/a/AGENT.md": "You are a.\n",
    }
    return Busy(make_workspace(files).without_templates())


def slowly(seconds, text):
    async def reply(_request):
        await asyncio.sleep(seconds)
        return says(text)

    return reply


class TestSlots:
    """Not more turns than the settings say, and none waits for a slot that it does not need."""

    def test_a_turn_that_waits_for_another_is_stopped_at_once_though_all_slots_are_taken(self, office):
        office.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})

        async def stop_soon(_request):
            request_stop(office.folder.path, Stop(STOP, "", "the owner"))
            await asyncio.sleep(3)
            return says("Late.")

        ask = lambda _request: query(office.child().id, wait_seconds=60)  # noqa: E731  # its id is known then
        began = time.monotonic()
        reply = office.run_team(start(), ask, says("never"), worker=[stop_soon])
        assert reply.reason == "stopped"
        assert time.monotonic() - began < 3

    def test_breaking_off_while_waiting_gives_no_slot_away_twice(self, office):
        office.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})
        running, most = 0, 0

        async def counted(_request):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1
            return says("done")

        async def now(_request):
            message = Incoming(FORMAT, "now", "", "Now!", Sender("user", owner=True), "hard")
            Inbox(office.folder.path).put(message, office.desk.now_ns())
            await asyncio.sleep(0.4)
            return says("done")

        three = Message(
            "assistant",
            tuple(
                ToolCall(f"c{n}", "start_session", json.dumps({"agent_id": "helper", "message": f"task {n}"}))
                for n in range(3)
            ),
        )
        ask = lambda _request: query(office.child().id, wait_seconds=60)  # noqa: E731
        lead = [start(), ask, three, says("ok"), *[says("noted")] * 5]
        office.run_team(*lead, worker=[now], helper=[counted] * 3)
        assert most == 1

    def test_they_count_for_a_run_whichever_processes_take_part_and_go_with_a_killed_one(self, office):
        office.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})
        office.run_team(start(), says("ok"), says("noted"), worker=[says("done")])
        taking = (
            "import sys, time; from halo.sessions.engine.slots import RunSlots;"
            "held = RunSlots(sys.argv[1], 1).take(); print(held is not None, flush=True); time.sleep(60)"
        )
        other = subprocess.Popen([sys.executable, "-c", taking, office.folder.path], stdout=subprocess.PIPE)
        with other.stdout as out:
            assert out.readline() == b"True\n"

        def killed(_session, event):
            office.shown.append(event)
            if isinstance(event, Notice) and "waits" in event.text:
                other.send_signal(signal.SIGKILL)

        office.put_for(office.at(office.child().id), "And now?")
        office.players = {"worker": Script(says("More.")), "lead": Script(says("noted"))}
        office.desk.adapter = lambda _artifact, target: office.players[target.agent]

        async def go():
            engine = Engine(office.desk, killed)
            engine.wake(office.child().id)
            await engine.settled()

        asyncio.run(go())
        assert other.wait(5) == -signal.SIGKILL
        assert outcome_of(office.at(office.child().id), "And now?").text == "More."
        told = [event.text for event in office.shown if isinstance(event, Notice)]
        assert f"session {office.child().id} waits: 1 turns of its run are at work in other processes" in told

    def test_a_session_that_is_alone_in_its_run_needs_none(self, desk):
        desk.run(Player(says("Hello.")))
        assert not os.path.exists(os.path.join(desk.folder.path, "slots"))

    def test_an_answer_that_comes_while_the_asker_waits_for_a_slot_is_not_lost(self, office):
        office.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        ask = query(office.child().id, wait_seconds=1)
        office.run_team(ask, says("Thanks."), text="Ask.", worker=[slowly(1.3, "At last.")])
        result = json.loads(office.results()[-1].text)
        assert (result["reply_state"], result["reply"]) == ("answered", "At last.")
        assert len(office.reports()) == 1


class TestAnswers:
    """An answer is the result of a call, or a message: one of the two, whichever process gives it."""

    def test_an_answer_from_another_process_is_the_result_and_no_message(self, office):
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        child = office.child().id

        async def go():
            office.players = {"lead": Script(query(child), says("Thanks.")), "worker": Script(says("Here."))}
            office.desk.adapter = lambda _artifact, target: office.players[target.agent]
            ours, theirs = (Engine(office.desk, lambda _session, _event: None) for _ in range(2))
            ours_wake, ours.wake = ours.wake, lambda name: name != child and ours_wake(name)
            home = office.desk.builder.places.home
            choice = choose(office.sessions, "lead", "cli", home=home, named=None, new=False)
            first = asyncio.create_task(ours.run(choice, typed("Ask.", office.desk.now_ns())))
            while not Inbox(office.at(child).path).count():
                await asyncio.sleep(0.02)
            theirs.wake(child)
            await theirs.settled()
            await first
            theirs.wake(office.folder.id)
            await theirs.settled()

        asyncio.run(go())
        assert json.loads(office.results()[-1].text)["reply"] == "Here."
        assert len(office.reports()) == 1  # that of the first task
        assert not Inbox(office.folder.path).count()

    def test_an_answer_whose_call_was_never_recorded_comes_as_a_message(self, office):
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        office.run_team(query(office.child().id), says("Thanks."), text="Ask.", worker=[says("Here.")])
        assert len(office.reports()) == 1
        cut(office.folder, "answer.taken", after=1)
        child = office.at(office.child().id)
        lines = Path(child.events).read_bytes().splitlines(keepends=True)
        last = max(n for n, line in enumerate(lines) if b"report.sent" in line)
        Path(child.events).write_bytes(b"".join(lines[:last]))
        office.run_team(says("And?"), says("Ah."), text="Go on.")
        assert "Result: Here." in "\n".join(office.reports())

    def test_a_parent_that_had_the_answer_waits_for_no_report(self, office):
        """Else it would never report to its own parent."""

        def ask(_request):
            return query(office.child("helper").id)

        office.run_team(
            start(),
            says("ok"),
            says("The end."),
            worker=[start("helper"), ask, says("Both of us found it.")],
            helper=[slowly(0.1, "Here."), says("Here."), says("Here.")],
        )
        assert any("Both of us found it." in report for report in office.reports())

    def test_a_message_that_went_into_the_history_by_a_stop_is_not_waited_for(self, desk):
        desk.run(Player(says("Hello.")))
        desk.put("waits")
        request_stop(desk.folder.path, Stop(STOP, "", "the owner"))
        desk.wake(Player())
        assert outcome_of(desk.folder, "waits").ended == "stopped"


class TestEndings:
    """What ends is over, and what was to come is left for whoever comes next."""

    def test_a_worker_that_finishes_begins_no_turn_that_waited_for_a_slot(self, desk):
        desk.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})
        desk.run(Player(says("Hello.")))
        first = desk.folder
        names = [first.id]
        for _ in range(2):
            choice = choose(desk.sessions, "a", "cli", home=desk.sessions, named=None, new=True)
            with choice.open(desk.desk.now_ns) as session:
                names.append(session.folder.id)
        for name in names:
            message = Incoming(FORMAT, name, "", "Go.", Sender("user", owner=True))
            Inbox(SessionFolder(desk.sessions, name).path).put(message, desk.desk.now_ns())

        async def go():
            engine = desk.engine(Script(slowly(0.2, "1"), says("2"), says("3")))
            for name in names:
                engine.wake(name)
            await asyncio.sleep(0.1)
            engine.finish()
            await engine.settled()

        asyncio.run(go())
        waiting = {n for n in names if Inbox(SessionFolder(desk.sessions, n).path).count()}
        assert len(waiting) == 2
        assert set(marked(desk.sessions)) == waiting

    def test_closing_begins_no_turn_with_what_it_breaks_off(self, office):
        begun = []

        async def begin(_request):
            begun.append(1)
            await asyncio.sleep(30)

        async def go():
            office.players = {"lead": Script(start(), says("ok"), says("never")), "worker": Script(begin)}
            office.desk.adapter = lambda _artifact, target: office.players[target.agent]
            engine = Engine(office.desk, lambda _session, event: office.shown.append(event))
            home = office.desk.builder.places.home
            choice = choose(office.sessions, "lead", "cli", home=home, named=None, new=True)
            running = asyncio.create_task(engine.run(choice, typed("Go.", office.desk.now_ns())))
            while not (begun and office.ends()):
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await asyncio.sleep(0.1)

        asyncio.run(go())
        assert office.ends() == ["done"]
        (waiting,) = Inbox(office.folder.path).waiting()[0]
        assert "Status: interrupted" in waiting.message.text

    def test_ctrl_c_ends_a_turn_that_was_just_being_broken_off_for_a_message(self, desk):
        desk.run(Player(says("Hello.")))

        class Slow(Player):
            async def stream(self, request):
                try:
                    async for event in super().stream(request):
                        yield event
                finally:
                    await asyncio.sleep(0.5)  # as a tool that is killed may take

        async def go():
            engine = desk.engine(Slow(None, says("Never.")))
            choice = desk.choose()
            running = asyncio.create_task(engine.run(choice, typed("Start.", desk.desk.now_ns())))
            await asyncio.sleep(0.2)
            desk.put("now", interrupt="hard")
            await asyncio.sleep(0.3)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(go())
        assert desk.ends() == ["done", "interrupted"]
        assert Inbox(desk.folder.path).count() == 1

    def test_the_error_of_the_last_turn_is_the_error_of_the_run(self, office):
        with pytest.raises(ProviderError, match="no such model"):
            office.run_team(
                start(), says("ok"), ProviderError("no such model", kind="request"), worker=[says("Ready.")]
            )

    def test_a_fault_of_one_session_is_told_and_ends_no_other(self, desk, monkeypatch):
        desk.run(Player(says("Hello.")))
        desk.put("one")

        def full(_path):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(holding, "wanted_stop", full)
        failures = []

        async def go():
            engine = desk.engine(Player())
            engine.wake(desk.folder.id)
            await engine.settled()
            failures.append(engine.failures)

        asyncio.run(go())
        assert failures == [{desk.folder.id: 1}]
        assert any("No space left" in n for n in desk.notices)

    def test_a_worker_keeps_nothing_of_sessions_that_are_done(self, desk):
        desk.run(Player(says("Hello.")))

        async def go():
            engine = desk.engine(Player(*[says("x")] * 3))
            for n in range(3):
                desk.put(f"m{n}")
                engine.wake(desk.folder.id)
                while engine.running:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            return len(engine._tasks)

        assert asyncio.run(go()) == 0


class TestInterrupts:
    """Only what arrives during a turn interrupts it."""

    @pytest.mark.parametrize("interrupt", ["soft", "hard"])
    def test_a_message_that_waited_already_interrupts_no_turn_before_its_own(self, desk, interrupt):
        desk.run(Player(says("Hello.")))
        desk.put("mine")
        desk.put("guest", Sender("user", name="Eve", access="readonly"), interrupt=interrupt)
        look = Message("assistant", (ToolCall("g", "grep", '{"pattern": "needle"}'),))
        desk.wake(Script(slowly(0.3, "I look."), says("Yes.")) if interrupt == "hard" else Player(
            look, says("Mine is done."), says("Yes.")
        ))  # fmt: skip
        assert desk.ends() == ["done", "done", "done"]

    def test_a_message_that_leaves_no_later_stamp_is_seen(self, desk):
        desk.run(Player(says("Hello.")))
        desk.put("first")
        attention = Attention(desk.folder, {"first"})
        attention._look()
        before = os.stat(Inbox(desk.folder.path).path)
        desk.put("now", interrupt="hard")
        os.utime(Inbox(desk.folder.path).path, ns=(before.st_atime_ns, before.st_mtime_ns))
        attention._look()
        assert attention.hard

    def test_a_folder_that_cannot_be_read_for_a_moment_blinds_nobody(self, desk, monkeypatch):
        desk.run(Player(says("Hello.")))
        stamp = Inbox.stamp
        faults = [OSError(5, "Input/output error")]

        def shaky(inbox):
            if faults:
                raise faults.pop()
            return stamp(inbox)

        monkeypatch.setattr(Inbox, "stamp", shaky)
        reply = desk.run(
            Putting(desk, [lambda: desk.put("now", interrupt="hard")], None, says("Here.")), "Go."
        )
        assert reply.text == "Here."


class TestHeldElsewhere:
    """Two processes want the same session."""

    def test_somebody_who_takes_it_right_behind_a_turn_makes_no_error_of_the_reply(self, desk, monkeypatch):
        desk.run(Player(says("Hello.")))
        taken = []
        close = OpenSession.close

        def then_another(session):
            close(session)
            if not taken:
                desk.put("one more")
                taken.append(session.folder.open(desk.desk.now_ns))

        monkeypatch.setattr(OpenSession, "close", then_another)
        reply = desk.run(Player(says("Mine.")), "Start.")
        close(taken[0])
        assert reply.text == "Mine."
        assert marked(desk.sessions) == [desk.folder.id]

    def test_somebody_who_has_it_for_a_moment_delays_it_and_no_more(self, desk):
        desk.run(Player(says("Hello.")))
        desk.put("one")

        async def go():
            engine = desk.engine(Player(says("Yes.")))
            held = desk.folder.open(desk.desk.now_ns)
            engine.wake(desk.folder.id)
            await asyncio.sleep(0.1)
            held.close()
            await engine.settled()

        asyncio.run(go())
        assert desk.said()[-2:] == ["one", "Yes."]


class TestRelatives:
    """Parents and children of whom one is gone, broken, or never began."""

    def test_a_child_whose_parent_was_deleted_reports_to_nobody_and_ends(self, office):
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        child, parent = office.at(office.child().id), office.folder
        shutil.rmtree(parent.path)
        Inbox(child.path).put(
            Incoming(FORMAT, "m", "", "And?", Sender("user", owner=True)), office.desk.now_ns()
        )
        office.wake_all(child, worker=[says("All the same.")])
        sent = [d for d in map(json_of, child.read_events()) if isinstance(d, ReportSent)]
        assert sent[-1].to == ""
        assert not os.path.exists(parent.path)
        assert not [e for e in office.shown if isinstance(e, Notice) and "error" in e.text]

    def test_a_child_that_never_got_its_task_keeps_nobody_waiting(self, office):
        """Its parent died between the two; it is the parent of nobody who waits for it."""
        office.run_team(
            start(),
            says("ok"),
            says("The end."),
            worker=[start("helper"), says("I wait."), says("Found.")],
            helper=[says("Here.")],
        )
        helper, worker = office.at(office.child("helper").id), office.at(office.child("worker").id)
        cut(helper, "turn.started")
        cut(worker, "turn.ended", after=1)
        cut(office.folder, "turn.ended", after=1)
        office.run_team(says("How is it?"), says("I see."), text="Go on.")
        assert any("agent worker" in report for report in office.reports())

    def test_a_child_with_something_to_do_is_not_deleted(self, office):
        office.run_team(start(cleanup="delete"), says("ok"), worker=[says("ANNOUNCE_SKIP")])
        child = office.at(office.child().id)
        message = Incoming(FORMAT, "m", "", "One more.", Sender("user", owner=True))
        Inbox(child.path).put(message, office.desk.now_ns())
        with child.open(office.desk.now_ns):  # whoever is about to take it
            office.run_team(says("I see."), text="Go on.")
        assert Inbox(child.path).count() == 1

    def test_an_inbox_that_cannot_be_written_to_is_told_and_stops_nobody(self, office, tmp_path):
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        child, parent = office.at(office.child().id), office.folder
        Inbox(child.path).put(
            Incoming(FORMAT, "m", "", "And?", Sender("user", owner=True)), office.desk.now_ns()
        )
        shutil.rmtree(os.path.join(parent.path, "inbox"), ignore_errors=True)
        os.symlink(tmp_path, os.path.join(parent.path, "inbox"))
        office.wake_all(child, worker=[says("Again.")])
        assert any("cannot be told" in n for n in office.notices)
        os.unlink(os.path.join(parent.path, "inbox"))
        office.wake_all(child, lead=[says("I see.")])
        assert any("Result: Again." in t for t in office.reports())

    def test_a_session_whose_process_died_does_not_run(self, office):
        office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
        child = office.at(office.child().id)
        cut(child, "turn.ended")
        monkey = pytest.MonkeyPatch()
        with monkey.context() as patch:
            patch.setattr(Engine, "wake", lambda _engine, _session: None)
            office.run_team(call("session_list", kinds=["other"]), says("ok"), text="List.")
            (row,) = json.loads(office.results()[-1].text)["sessions"]
            assert row["status"] == "idle"

    def test_halo_run_shows_of_a_child_that_it_begins_and_ends(self, office):
        office.players = {
            "lead": Script(start(), says("It works."), says("Found.")),
            "worker": Script(says("Secret words.")),
        }
        office.desk.adapter = lambda _artifact, target: office.players[target.agent]
        home = office.desk.builder.places.home
        choice = choose(office.sessions, "lead", "cli", home=home, named=None, new=True)
        said = typed("Go.", office.desk.now_ns())
        reply = run_typed(office.desk, choice, said, office.shown.append, frozen=False, named=False)
        assert reply.text == "Found."
        assert [e.text for e in office.shown if isinstance(e, TextDelta)] == ["It works.", "Found."]
        child = office.child().id
        assert f"session {child}: worker begins turn 1" in office.notices
        assert f"session {child}: done" in office.notices

    def test_what_is_shown_of_the_foreground_is_its_own(self):
        shown = []
        show = Foreground(shown.append, lambda: "own")
        show("child", Notice("note: it only reads here"))
        show("child", Began(1, "child", 1, "worker", "x", "y"))
        show("own", Began(1, "own", 1, "lead", "x", "y"))
        show("own", TurnEnded("done"))
        assert shown[1:] == [
            Notice("session child: worker begins turn 1"),
            Began(1, "own", 1, "lead", "x", "y"),
            TurnEnded("done"),
        ]


def test_a_log_that_cannot_be_read_keeps_no_parent_waiting(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
    child = office.at(office.child().id)
    cut(office.folder, "turn.ended", after=1)
    os.unlink(child.events)
    os.mkdir(child.events)
    with pytest.raises(LogError):
        child.read()
    assert office.run_team(says("Alone."), text="How is it?").text == "Alone."


class TestWorkers:
    """A worker beside others, and beside what fails."""

    def test_what_a_process_runs_itself_is_not_offered_to_workers(self, office):
        office.ws.write({".halo/settings.yaml": ONE_AT_A_TIME})
        seen = []

        def look(_request):  # the child waits for its slot
            seen.append((marked(office.sessions), Inbox(office.at(office.child().id).path).count()))
            return says("ok")

        office.run_team(start(), look, says("noted"), worker=[says("Ready.")])
        assert seen == [([], 1)]

    def test_a_session_whose_turn_cannot_begin_is_tried_again_later_and_later(self, desk):
        desk.run(Player(says("Hello.")))
        desk.put("one")
        tried, now = [], 0.0

        def adapter(_artifact, _target):
            tried.append(now)
            raise ProviderError("no key", kind="request")

        async def go():
            nonlocal now
            desk.desk.adapter = adapter
            engine = Engine(desk.desk, lambda _session, _event: None)
            worker = Worker(engine, desk.sessions, desk.told.append, lambda: now)
            for second in range(200):
                now = second
                await worker.drain()

        desk.told = []
        asyncio.run(go())
        assert tried == [0, 31, 92]

    def test_a_message_without_a_mark_is_found_after_a_while(self, desk):
        desk.run(Player(says("Hello.")))
        desk.put("one")
        unmark(desk.sessions, desk.folder.id)
        assert [*waiting_sessions(desk.sessions, before=time.time() - 10)] == []
        os.utime(Inbox(desk.folder.path).path, (time.time() - 60,) * 2)
        assert [*waiting_sessions(desk.sessions, before=time.time() - 10)] == [desk.folder.id]

        async def go():
            now = time.monotonic()
            engine = desk.engine(Player(says("Yes.")))
            clock = iter(range(0, 100_000, 30))
            worker = Worker(engine, desk.sessions, str, lambda: now + next(clock))
            stop = asyncio.Event()
            running = asyncio.create_task(worker.run(stop))
            while Inbox(desk.folder.path).count():
                await asyncio.sleep(0.05)
            stop.set()
            await running

        monkey = pytest.MonkeyPatch()
        with monkey.context() as patch:
            patch.setattr(workers, "_TICK", 0.1)
            patch.setattr(workers, "waiting_sessions", late(workers.waiting_sessions))
            asyncio.run(go())
        assert desk.said()[-1] == "Yes."

    def test_a_name_that_is_no_session_is_refused_and_nothing_is_removed(self, desk):
        desk.run(Player(says("Hello.")))
        (desk.ws.halo / "sessions" / "waiting").mkdir(exist_ok=True)
        kept = desk.ws.halo / "sessions" / "kept.txt"
        kept.write_text("x")

        async def go():
            engine = desk.engine(Player())
            await Worker(engine, desk.sessions, str, time.monotonic).drain(["../kept.txt"])

        with pytest.raises(UnknownNameError):
            asyncio.run(go())
        assert kept.exists()


def late(waiting):
    """Find nothing at the start, as if the message had come behind it."""
    return lambda sessions, before=None: iter(()) if before is None else waiting(sessions, before=before)
