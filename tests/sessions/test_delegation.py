"""Sessions that start and talk to others: an agent with a team, its children, their reports."""

import asyncio
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from making import agent
from playing import Player, says
from test_engine import Busy

from halo.errors import ProviderError
from halo.models.adapter import Finished, TextDelta
from halo.records.events import TYPES, MessageAdded, ToolResultAdded, TurnEnded
from halo.records.messages import Message, Text, ToolCall
from halo.records.session_events import ChildStarted, ReportSent
from halo.records.stops import FORMAT as STOP
from halo.records.stops import Stop
from halo.records.usage import Usage
from halo.sessions.choice import choose
from halo.sessions.derived import read_header
from halo.sessions.engine.engine import Engine
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.control import request_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.index.lookup import headers
from halo.sessions.talk import typed

LEAD = {
    "name": "Lead",
    "tools": ["grep"],
    "team": ["worker", "helper"],
    "budgets": {"run": {"tokens": 1000}},
}


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/lead/agent.yaml": agent(**LEAD),
        ".halo/agents/lead/AGENT.md": "You lead.\n",
        ".halo/agents/worker/agent.yaml": agent(name="Worker", tools=["grep"], team=["helper"]),
        ".halo/agents/worker/AGENT.md": "You work.\n",
        ".halo/agents/helper/agent.yaml": agent(name="Helper", description="helps", tools=["grep"]),
        ".halo/agents/helper/AGENT.md": "You help.\n",
        ".halo/settings.yaml": "general:\n  models:\n    aliases:\n      fast: {provider: openai, id: quick}\n",
        "pkg/a.txt": "a needle\n",
    }
    return Team(make_workspace(files).without_templates())


class Script(Player):
    """Each reply is a message, an error, or a function of the request that returns one."""

    async def stream(self, request):
        reply = self.replies.pop(0) if self.replies else says("Nothing more.")
        if callable(reply):
            reply = reply(request)
            reply = await reply if asyncio.iscoroutine(reply) else reply
        self.replies.insert(0, reply)
        async for event in super().stream(request):
            yield event


class Team(Busy):
    """Plays every agent; `results` are what tools returned in the lead's session."""

    def run_team(self, *lead, text="Go.", new=False, **others):
        self.players = {"lead": Script(*lead), **{name: Script(*r) for name, r in others.items()}}
        self.desk.adapter = lambda _artifact, target: self.players[target.agent]
        engine = Engine(self.desk, lambda session, event: self.shown.append(event))
        choice = choose(self.sessions, "lead", "cli", home=self.desk.builder.places.home, named=None, new=new)
        return asyncio.run(engine.run(choice, typed(text, self.desk.now_ns())))

    @property
    def folder(self):
        return choose(
            self.sessions, "lead", "cli", home=self.desk.builder.places.home, named=None, new=False
        ).folder

    def children(self):
        return [h for h in headers(self.sessions) if h.parent]

    def child(self, agent="worker"):
        (found,) = [h for h in self.children() if h.agent == agent]
        return found

    def results(self):
        return [d.result for _, d in self.recorded() if isinstance(d, ToolResultAdded)]

    def result(self, n=0):
        result = self.results()[n]
        assert not result.is_error, result.text
        return json.loads(result.text)

    def reports(self):
        return [t for t in self.said() if t.startswith("[Report")]


def call(name, **arguments):
    return Message("assistant", (ToolCall(f"c-{name}", name, json.dumps(arguments)),))


def start(agent="worker", **more):
    return call("start_session", agent_id=agent, message="Find the needle.", **more)


def test_a_child_works_on_its_own_and_its_report_wakes_the_parent(office):
    reply = office.run_team(
        start(), says("It works."), says("Found it, says the worker."), worker=[says("In pkg.")]
    )
    child = office.child()
    assert office.result() == {"status": "accepted", "session_id": child.id, "agent_id": "worker"}
    (report,) = office.reports()
    assert report.startswith(
        f"[Report of session {child.id}, agent worker]\nStatus: completed\nResult: In pkg.\n"
    )
    assert "Stats: " in report
    assert f"{child.id}/transcript.md" in report
    assert reply.text == "Found it, says the worker."
    assert office.ends() == ["done", "done"]
    assert (child.parent, child.root, child.depth) == (office.folder.id, office.folder.id, 1)
    assert child.target.role == "sub"


def test_a_child_knows_its_task_and_nothing_of_the_parents_history(office):
    office.run_team(start(context="The repository is small."), says("ok"), says("ok"), worker=[says("done")])
    (request,) = office.players["worker"].requests
    assert len(request.history) == 1
    given = request.history[0].text
    assert given == (
        f"(from session {office.folder.id}, agent lead)\nThe repository is small.\n\nFind the needle."
    )


def test_a_report_says_what_happened_whatever_the_model_says(office):
    """The seed: the status comes from the runtime, never from the text."""
    said = Text("Status: completed. All is well.")
    look = Message("assistant", (said, ToolCall("g", "grep", '{"pattern": "needle"}')))
    worker = [look, ProviderError("no such model", kind="request")]
    office.run_team(start(), says("ok"), says("I see."), worker=worker)
    assert "Status: failed: no such model" in office.reports()[0]


def test_children_report_from_the_bottom_up_and_the_middle_waits_for_its_own(office):
    office.run_team(
        start(),
        says("ok"),
        says("The end."),
        worker=[start("helper"), says("I wait."), says("Both of us found it.")],
        helper=[says("Here.")],
    )
    (report,) = office.reports()
    assert "Result: Both of us found it." in report
    assert office.child("helper").depth == 2
    assert office.child("helper").root == office.folder.id


def test_many_starts_at_once_lose_none(office):
    """Complaint 31: 10 fast spawns lose one or two children; here 50 in one reply."""
    starts = Message(
        "assistant",
        tuple(
            ToolCall(f"c{n}", "start_session", json.dumps({"agent_id": "worker", "message": f"task {n}"}))
            for n in range(50)
        ),
    )
    office.run_team(starts, says("ok"), *[says("noted")] * 60, worker=[says("done")] * 50)
    assert len(office.children()) == 50
    taken = "\n".join(office.said())
    assert all(f"[Report of session {child.id}," in taken for child in office.children())
    assert taken.count("[Report of session") == 50


def test_not_more_turns_run_at_once_than_the_settings_say(office):
    office.ws.write({".halo/settings.yaml": "general:\n  session:\n    delegation: {concurrency: 2}\n"})
    running, most = 0, 0

    async def counted(_request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return says("done")

    starts = Message(
        "assistant",
        tuple(
            ToolCall(f"c{n}", "start_session", json.dumps({"agent_id": "worker", "message": f"task {n}"}))
            for n in range(6)
        ),
    )
    office.run_team(starts, says("ok"), *[says("noted")] * 8, worker=[counted] * 6)
    assert most == 2


def test_depth_is_bound_for_the_whole_run(office):
    office.ws.write({".halo/settings.yaml": "general:\n  session:\n    delegation: {depth: 1}\n"})
    office.run_team(start(), says("ok"), says("ok"), worker=[start("helper"), says("I may not.")])
    (refused,) = [
        d.result
        for e in SessionFolder(office.sessions, office.child().id).read_events()
        if e.type == "tool.result"
        for d in [json_of(e)]
    ]
    assert "delegation.depth is 1" in refused.text
    assert refused.is_error


def json_of(event):
    return msgspec.json.decode(event.data, type=TYPES[event.type])


def test_children_draw_on_the_budget_of_the_run(office):
    class Costly(Script):
        async def stream(self, request):
            async for event in super().stream(request):
                costly = Usage(uncached=900, output=200)
                last = isinstance(event, Finished)
                yield Finished(event.message, event.stop_reason, costly, "m", "d") if last else event

    office.players = {
        "lead": Script(start(), says("ok"), says("over")),
        "worker": Costly(
            Message("assistant", (ToolCall("g", "grep", '{"pattern": "needle"}'),)), says("more")
        ),
    }
    office.desk.adapter = lambda _artifact, target: office.players[target.agent]
    engine = Engine(office.desk, lambda session, event: office.shown.append(event))
    choice = choose(
        office.sessions, "lead", "cli", home=office.desk.builder.places.home, named=None, new=False
    )
    reply = asyncio.run(engine.run(choice, typed("Go.", office.desk.now_ns())))
    child = SessionFolder(office.sessions, office.child().id).read()
    assert child.ended.reason == "tokens"
    assert reply.reason == "tokens"  # the root has nothing left either
    assert "Status: out of budget (tokens)" in office.reports()[0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"agent_id": "nobody", "message": "x"}, "not in your team; it has"),
        ({"agent_id": "worker", "message": "  "}, "the message is empty"),
        (
            {"agent_id": "worker", "message": "x", "working_dir": "nowhere"},
            "nowhere is no folder of the workspace",
        ),
        (
            {"agent_id": "worker", "message": "x", "working_dir": "../.."},
            "../.. is no folder of the workspace",
        ),
        ({"agent_id": "worker", "message": "x", "working_dir": "/etc"}, "/etc is no folder of the workspace"),
        ({"agent_id": "worker", "message": "x", "model": "slow"}, "model: unknown model 'slow'; known: fast"),
        ({"agent_id": "worker", "message": "x", "model": "local/x.gguf"}, "is a file"),
        ({"agent_id": "worker", "message": "x", "cleanup": "burn"}, "cleanup"),
    ],
)
def test_what_cannot_be_started_is_an_error_and_leaves_nothing(office, arguments, problem):
    office.run_team(call("start_session", **arguments), says("ok"))
    (result,) = office.results()
    assert result.is_error
    assert problem in result.text
    assert str(office.ws.root) not in result.text
    assert office.children() == []
    assert not [d for _, d in office.recorded() if isinstance(d, ChildStarted)]


@pytest.mark.parametrize("form", ["pkg", "./pkg/", "{root}/pkg"])
def test_a_working_directory_is_stored_relative_and_kept(office, form):
    directory = form.format(root=office.ws.root)
    office.run_team(start(working_dir=directory), says("ok"), says("ok"), worker=[says("done")])
    assert office.child().target.directory == "pkg"


def test_a_model_that_was_chosen_is_the_childs_own(office):
    seen = []
    office.players = {
        "lead": Script(start(model="fast"), says("ok"), says("ok")),
        "worker": Script(says("done")),
    }

    def adapter(artifact, target):
        seen.append((target.agent, artifact.runtime.binding.model))
        return office.players[target.agent]

    office.desk.adapter = adapter
    engine = Engine(office.desk, lambda session, event: office.shown.append(event))
    choice = choose(
        office.sessions, "lead", "cli", home=office.desk.builder.places.home, named=None, new=False
    )
    asyncio.run(engine.run(choice, typed("Go.", office.desk.now_ns())))
    assert ("worker", "quick") in seen
    assert office.child().settings["model"] == "=fast"


def test_a_child_out_of_time_reports_what_it_has(office):
    async def long(_request):
        await asyncio.sleep(30)

    office.run_team(start(seconds=1), says("ok"), says("I see."), worker=[long])
    assert "Status: out of time" in office.reports()[0]


def test_a_child_that_was_to_go_is_gone_when_its_report_is_taken(office):
    office.run_team(start(cleanup="delete"), says("ok"), says("ok"), worker=[says("done")])
    assert office.children() == []
    assert len(office.reports()) == 1


def test_silence_wakes_nobody_and_is_told_with_the_next_message(office):
    office.run_team(start(), says("ok"), worker=[says("ANNOUNCE_SKIP")])
    assert office.ends() == ["done"]
    office.run_team(says("And?"), text="Well?")
    assert "Result: (no text)" in office.said()[-2]


def query(session, **more):
    return call("query_session", session_id=session, message="Where?", **more)


def test_an_answer_that_was_waited_for_is_the_result_and_no_message(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.child().id
    office.run_team(query(child), says("Thanks."), text="Ask.", worker=[says("In pkg/a.txt.")])
    result = json.loads(office.results()[-1].text)
    assert result == {
        "session_id": child,
        "delivery": "accepted",
        "reply_state": "answered",
        "reply": "In pkg/a.txt.",
    }
    assert len(office.reports()) == 1
    assert office.ends() == ["done"] * 3


def test_no_answer_yet_is_not_called_a_failure_and_the_message_is_not_repeated(office):
    """Complaint 61: "timeout" although delivered; agents retry."""

    async def slowly(_request):
        await asyncio.sleep(1.5)
        return says("At last.")

    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.child().id
    office.run_team(
        query(child, wait_seconds=1, key="k"),
        query(child, wait_seconds=0, key="k"),
        says("Then later."),
        says("There."),
        text="Ask.",
        worker=[slowly],
    )
    first, second = (json.loads(r.text) for r in office.results()[-2:])
    assert first["delivery"] == "accepted"
    assert first["reply_state"] == "none after 1 s, being worked on"
    assert second["delivery"] == "delivered before"
    assert len(office.reports()) == 2  # complaint 62: one report for one message
    assert "Result: At last." in office.reports()[-1]


def test_a_failed_turn_of_the_other_is_said_as_such(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.child().id
    office.run_team(query(child), says("Hm."), text="Ask.", worker=[ProviderError("bad", kind="request")])
    result = json.loads(office.results()[-1].text)
    assert (result["delivery"], result["reply_state"], result["error"]) == ("accepted", "failed", "bad")


def test_sessions_outside_the_run_are_not_seen(office):
    office.run_team(says("first"))
    other = office.folder.id
    office.run_team(query(other), call("session_list"), says("ok"), new=True)
    refused, listed = office.results()
    assert refused.is_error
    assert "no session" in refused.text
    assert [row["session_id"] for row in json.loads(listed.text)["sessions"]] == [office.folder.id]


def test_all_sessions_are_seen_where_the_settings_say_so(office):
    office.run_team(says("first"))
    other = office.folder.id
    office.ws.write(
        {".halo/settings.yaml": "general:\n  session:\n    delegation: {visibility: workspace}\n"}
    )
    office.run_team(call("session_list"), says("ok"), new=True)
    rows = office.result()["sessions"]
    assert {row["session_id"] for row in rows} == {other, office.folder.id}


def test_the_list_says_how_sessions_stand(office):
    office.run_team(start(title="The  needle"), says("ok"), says("noted"), worker=[says("In pkg.")])
    office.run_team(call("session_list", messages=2), says("ok"), text="List.")
    rows = {row["agent"]: row for row in json.loads(office.results()[-1].text)["sessions"]}
    worker = rows["worker"]
    assert worker["status"] == "idle"
    assert worker["title"] == "The needle"
    assert worker["kind"] == "other"
    assert worker["channel"] == "internal"
    assert worker["total_tokens"] == 5
    assert worker["transcript_path"].endswith("transcript.md")
    assert [m["text"] for m in worker["messages"]][-1] == "In pkg."
    assert rows["lead"]["status"] == "running"
    assert rows["lead"]["kind"] == "main"


def test_lists_are_filtered(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    office.run_team(
        call("session_list", kinds=["main"]),
        call("session_list", active_minutes=1, kinds=["other"]),
        call("session_list", limit=1),
        says("ok"),
        text="List.",
    )
    main, recent, one = (json.loads(r.text) for r in office.results()[-3:])
    assert [row["agent"] for row in main["sessions"]] == ["lead"]
    assert [row["agent"] for row in recent["sessions"]] == ["worker"]
    assert (one["count"], one["more"]) == (1, 1)


def test_a_history_comes_with_or_without_tools(office):
    look = Message("assistant", (ToolCall("g", "grep", '{"pattern": "needle"}'),))
    office.run_team(start(), says("ok"), says("noted"), worker=[look, says("In pkg.")])
    child = office.child().id
    office.run_team(
        call("session_history", session_id=child),
        call("session_history", session_id=child, tools=True),
        says("ok"),
        text="Show.",
    )
    plain, full = (json.loads(r.text)["messages"] for r in office.results()[-2:])
    assert [m["role"] for m in plain] == ["user", "assistant"]
    assert [m["role"] for m in full] == ["user", "tool_call", "tool_result", "assistant"]


def test_stopping_a_child_stops_what_it_started_and_wakes_nobody_again(office):
    """Bug 8 of the reference: the report of a stopped child re-wakes whoever stopped it."""

    async def hang(_request):
        await asyncio.sleep(30)

    async def stop_it(_request):
        await asyncio.sleep(0.2)
        return call("stop_session", session_id=office.child().id)

    office.run_team(
        start(),
        stop_it,
        says("Stopped."),
        worker=[start("helper"), hang],
        helper=[hang],
    )
    stopped = json.loads(office.results()[-1].text)
    assert stopped["sessions"] == [office.child("worker").id, office.child("helper").id]
    for child in office.children():
        assert SessionFolder(office.sessions, child.id).read().standing.stopped
    assert office.ends() == ["done"]
    office.run_team(says("Back."), text="Go on.")
    assert "Status: stopped" in office.said()[-2]


def test_stopping_the_parent_does_not_wake_it_again(office):
    async def hang(_request):
        request_stop(office.folder.path, Stop(STOP, "", "the owner"))
        await asyncio.sleep(30)

    async def wait(_request):
        await asyncio.sleep(30)

    reply = office.run_team(start(), wait, worker=[hang])
    assert reply.reason == "stopped"
    assert office.ends() == ["stopped"]
    assert SessionFolder(office.sessions, office.child().id).read().standing.stopped
    assert Inbox(office.folder.path).count() <= 1
    office.run_team(says("Back."), text="Go on.")
    assert "Status: stopped" in office.said()[-2]


def test_an_archived_session_is_listed_on_request_and_not_talked_to(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.child().id
    office.run_team(
        call("archive_session", session_id=child),
        query(child),
        call("session_list", kinds=["other"]),
        call("session_list", kinds=["other"], archived=True),
        says("ok"),
        text="Put it away.",
    )
    done, refused, without, full = office.results()[-4:]
    assert json.loads(done.text)["sessions"] == [child]
    assert "archived" in refused.text
    assert json.loads(without.text)["count"] == 0
    assert json.loads(full.text)["sessions"][0]["archived"] is True


def test_a_child_archives_itself_an_hour_after_its_report(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    office.desk.now_ns.ns += 3_700 * 10**9
    office.run_team(call("session_list", kinds=["other"]), says("ok"), text="List.")
    assert json.loads(office.results()[-1].text)["count"] == 0


def test_the_output_of_a_session_is_that_of_its_last_turn(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    office.run_team(call("get_session_output", session_id=office.child().id), says("ok"), text="Show.")
    result = json.loads(office.results()[-1].text)
    assert (result["status"], result["output"]) == ("completed", "In pkg.")


def test_an_agent_of_the_team_can_be_looked_at(office):
    office.run_team(call("query_agent", agent_id="helper"), call("query_agent", agent_id="lead"), says("ok"))
    helper, refused = office.results()
    assert helper.text.startswith("# Agent: Helper\n\n**Description:** helps")
    assert "grep" in helper.text
    assert refused.is_error


def test_an_agent_without_a_team_cannot_reach_others(office):
    office.run_team(
        start(), says("ok"), says("noted"), worker=[start("helper"), says("x"), says("y")], helper=[says("z")]
    )
    helper = SessionFolder(office.sessions, office.child("helper").id).read()
    artifact = office.ws.builder.store.load(helper.started.artifact)
    assert not any(spec.name.endswith("_session") for spec in artifact.manifest.tools)


def cut(folder, event, *, after=0):
    """Leave in a log what stands before the first event of this type, and so many lines from there on."""
    log = Path(folder.events)
    lines = log.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if json.loads(line)["type"] == event)
    log.write_bytes(b"".join(lines[: first + after]))


def test_a_report_arrives_once_even_if_the_process_dies_before_it_is_sent(office):
    """Whoever opens the parent next finds the child that ended and has not been heard."""
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    parent, child = office.folder, SessionFolder(office.sessions, office.child().id)
    cut(child, "report.sent")
    cut(parent, "turn.ended", after=1)
    office.run_team(says("Working?"), says("Now I know."), text="How is it?")
    assert len(office.reports()) == 1
    sent = [json_of(e) for e in child.read_events() if e.type == "report.sent"]
    assert sent == [ReportSent(parent.id, f"report:{child.id}:1", "completed")]


def test_a_child_whose_process_died_reports_that_it_was_interrupted(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    parent, child = office.folder, SessionFolder(office.sessions, office.child().id)
    cut(child, "turn.started", after=2)
    cut(parent, "turn.ended", after=1)
    office.run_team(says("Working?"), says("Now I know."), text="How is it?")
    assert "Status: interrupted" in office.reports()[0]


def test_a_child_that_was_never_begun_is_passed_over(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    shutil.rmtree(SessionFolder(office.sessions, office.child().id).path)
    cut(office.folder, "turn.ended", after=1)
    assert office.run_team(says("Alone."), text="How is it?").text == "Alone."


def test_ended_turns_of_children_are_shown_to_nobody_as_the_parents(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    assert read_header(office.folder).turns == 2
    assert len(list(session_ids(office.sessions))) == 2
    assert not any(isinstance(d, MessageAdded) and d.message.text == "In pkg." for _, d in office.recorded())
    assert [d.reason for _, d in office.recorded() if isinstance(d, TurnEnded)] == ["done", "done"]
    assert any(isinstance(e, TextDelta) for e in office.shown)


def test_a_session_that_came_with_the_folder_is_not_seen(office):
    """It may say that it belongs to this run; what stands in it, somebody else wrote."""
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = SessionFolder(office.sessions, office.child().id)
    stranger = SessionFolder(office.sessions, child.id[:-6] + "zzzzzz")
    shutil.copytree(child.path, stranger.path)
    office.run_team(
        call("session_list"), call("session_history", session_id=stranger.id), says("ok"), text="List."
    )
    listed, refused = office.results()[-2:]
    assert {row["session_id"] for row in json.loads(listed.text)["sessions"]} == {office.folder.id, child.id}
    assert refused.is_error
