"""Batches: read-only calls that stand next to each other run together, others alone and in order."""

import asyncio
import json
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.files.roots import ConfinedRoot
from halo.records.messages import ToolCall
from halo.records.tools import ToolSpec
from halo.tools.base import Surroundings, ToolFailure
from halo.tools.toolbox import Toolbox

ANY = {"type": "object"}


def box(tmp_path, tools, changing=(), decide=None):
    """Return a toolbox of `tools` by name; those in `changing` are not read-only."""
    specs = tuple(
        ToolSpec(name, "Odd.", ANY, access="workspace" if name in changing else "readonly") for name in tools
    )
    around = Surroundings(ConfinedRoot(str(tmp_path)), {}, lambda _skill, _arguments: None)
    return Toolbox(specs, around, tools, decide)


def calls(*names, **arguments):
    return [ToolCall(f"c{n}", name, json.dumps(arguments)) for n, name in enumerate(names)]


async def all_of(batch):
    return [(call.id, result.text, result.is_error) async for call, result, _ in batch]


class Watched:
    """A tool that notes when it begins and ends, and how many run at once."""

    def __init__(self):
        self.log = []
        self.running = 0
        self.most = 0

    def tool(self, name, wait=0.02):
        async def run(_arguments, _around):
            self.running += 1
            self.most = max(self.most, self.running)
            self.log.append(f"+{name}")
            await asyncio.sleep(wait)
            self.running -= 1
            self.log.append(f"-{name}")
            return name

        return run


def test_read_only_calls_run_together(tmp_path):
    met = threading.Barrier(3)

    def meet(_arguments, _around):
        met.wait(30)  # nobody comes back before all three are there
        return "met"

    answers = asyncio.run(all_of(box(tmp_path, {"meet": meet}).run_batch(calls("meet", "meet", "meet"))))
    assert answers == [("c0", "met", False), ("c1", "met", False), ("c2", "met", False)]


def test_no_more_than_eight_at_once(tmp_path):
    watched = Watched()
    tools = box(tmp_path, {"look": watched.tool("look")})
    answers = asyncio.run(all_of(tools.run_batch(calls(*["look"] * 30))))
    assert [identity for identity, _, _ in answers] == [f"c{n}" for n in range(30)]
    assert watched.most == 8


def test_what_changes_something_runs_alone_and_in_its_place(tmp_path):
    watched = Watched()
    tools = box(tmp_path, {name: watched.tool(name) for name in ("a", "b", "x", "y")}, ("x", "y"))
    asyncio.run(all_of(tools.run_batch(calls("a", "b", "x", "y", "a", "b"))))
    assert watched.log[:2] == ["+a", "+b"]
    assert watched.log[4:8] == ["+x", "-x", "+y", "-y"]
    assert watched.log[8:10] == ["+a", "+b"]


def test_what_is_done_to_sessions_has_an_order(tmp_path):
    """It needs no access, but the list of sessions is another one once one is archived."""
    watched = Watched()
    tools = box(tmp_path, {name: watched.tool(name) for name in ("archive_session", "session_list")})
    batch = [*calls("archive_session", session_id="s"), *calls("session_list")]
    asyncio.run(all_of(tools.run_batch(batch)))
    assert watched.log == ["+archive_session", "-archive_session", "+session_list", "-session_list"]


def test_a_missing_tool_counts_as_one_that_changes_nothing(tmp_path):
    watched = Watched()
    tools = box(tmp_path, {"a": watched.tool("a")})
    answers = asyncio.run(all_of(tools.run_batch(calls("a", "what", "a"))))
    assert watched.log == ["+a", "+a", "-a", "-a"]
    assert answers[1] == ("c1", "there is no tool 'what'; yours are: a", True)


@given(st.lists(st.sampled_from("abxy"), max_size=12), st.data())
def test_every_call_is_answered_once_in_order(tmp_path_factory, names, data):
    watched = Watched()
    waits = st.floats(0, 0.002)
    tools = {name: watched.tool(name, data.draw(waits)) for name in "abxy"}
    answers = asyncio.run(all_of(box(tmp_path_factory.getbasetemp(), tools, "xy").run_batch(calls(*names))))
    assert answers == [(f"c{n}", name, False) for n, name in enumerate(names)]
    for at, entry in enumerate(watched.log):
        if entry[1] in "xy" and entry[0] == "+":
            assert watched.log[at + 1] == f"-{entry[1]}"


def test_a_result_comes_as_soon_as_it_and_all_before_it_are_there(tmp_path):
    release = asyncio.Event()

    async def quick(_arguments, _around):
        return "quick"

    async def slow(_arguments, _around):
        await release.wait()
        return "slow"

    async def go():
        batch = box(tmp_path, {"quick": quick, "slow": slow}).run_batch(calls("quick", "slow", "quick"))
        first = await anext(batch)
        release.set()  # had the first waited for the second, this would never be reached
        return [first[0].id, *[call.id async for call, _, _ in batch]]

    assert asyncio.run(asyncio.wait_for(go(), 30)) == ["c0", "c1", "c2"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolFailure("not that"), "not that"),
        (ValueError("odd"), "internal error: ValueError: odd"),
        (StopIteration("s"), "internal error: StopIteration: s"),
        (StopAsyncIteration("s"), "internal error: StopAsyncIteration: s"),
        (GeneratorExit("g"), "internal error: GeneratorExit: g"),
        (asyncio.CancelledError("c"), "internal error: CancelledError: c"),
        (BaseExceptionGroup("g", [KeyError("k")]), None),
    ],
)
def test_one_that_fails_costs_the_others_nothing(tmp_path, error, text):
    def fail(_arguments, _around):
        raise error

    def work(_arguments, _around):
        time.sleep(0.01)
        return "done"

    tools = box(tmp_path, {"work": work, "fail": fail})
    first, failed, last = asyncio.run(all_of(tools.run_batch(calls("work", "fail", "work"))))
    assert (first, last) == (("c0", "done", False), ("c2", "done", False))
    assert failed[2]
    assert text is None or failed[1] == text


def test_a_tool_that_cancels_itself_costs_the_others_nothing(tmp_path):
    async def leave(_arguments, _around):
        raise asyncio.CancelledError

    async def work(_arguments, _around):
        await asyncio.sleep(0.01)
        return "done"

    tools = box(tmp_path, {"work": work, "leave": leave})
    answers = asyncio.run(all_of(tools.run_batch(calls("work", "leave", "work"))))
    assert [is_error for _, _, is_error in answers] == [False, True, False]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_the_batch(tmp_path, error):
    ended = []

    def fail(_arguments, _around):
        raise error

    async def wait(_arguments, _around):
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    tools = box(tmp_path, {"wait": wait, "fail": fail})
    with pytest.raises(error):
        asyncio.run(all_of(tools.run_batch(calls("wait", "fail"))))
    assert ended == [True]


@pytest.mark.parametrize("way", ["close", "cancel", "timeout"])
def test_breaking_off_cancels_all_that_runs(tmp_path, way):
    watched = Watched()
    ended = []

    async def wait(_arguments, _around):
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)  # cleaning up takes time, and is waited for
            ended.append(True)

    async def go():
        tools = box(tmp_path, {"look": watched.tool("look", 0), "wait": wait})
        batch = tools.run_batch(calls("look", *["wait"] * 3))
        await anext(batch)
        if way == "close":
            await batch.aclose()
        elif way == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(batch)
        else:
            waiting = asyncio.ensure_future(anext(batch))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert ended == [True] * 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())


def test_milliseconds_are_those_of_the_call_alone(tmp_path):
    """Not those of waiting for a place among the eight, nor of those before it."""
    now, begun = [0.0], []
    release = asyncio.Event()

    async def take(_arguments, _around):
        begun.append(True)
        if len(begun) <= 8:
            await release.wait()
        return "took"

    async def go():
        batch = box(tmp_path, {"take": take}).run_batch(calls(*["take"] * 9), lambda: now[0])
        asyncio.get_running_loop().call_later(0.01, lambda: (now.append(now.pop() + 2.5), release.set()))
        return [took async for _, _, took in batch]

    took = asyncio.run(go())
    assert took == [2500] * 8 + [0]
    assert all(type(ms) is int for ms in took)


class TestConsent:
    def test_is_asked_for_one_call_after_the_other_in_their_order(self, tmp_path):
        asked, at_once = [], [0]

        async def decide(_name, arguments):
            at_once[0] += 1
            assert at_once[0] == 1
            await asyncio.sleep(0.002 * (20 - arguments["n"]) / 20)
            asked.append(arguments["n"])
            at_once[0] -= 1
            return "no" if arguments["n"] == 3 else None

        async def look(arguments, _around):
            return str(arguments["n"])

        batch = [ToolCall(f"c{n}", "look", json.dumps({"n": n})) for n in range(20)]
        answers = asyncio.run(all_of(box(tmp_path, {"look": look}, decide=decide).run_batch(batch)))
        assert asked == list(range(20))
        assert [text for _, text, _ in answers] == [str(n) if n != 3 else "no" for n in range(20)]

    def test_a_call_begins_only_when_it_is_admitted(self, tmp_path):
        log = []

        async def decide(name, _arguments):
            await asyncio.sleep(0.001)
            log.append("decided")

        async def look(_arguments, _around):
            log.append("begun")
            return ""

        asyncio.run(all_of(box(tmp_path, {"look": look}, decide=decide).run_batch(calls("look"))))
        assert log == ["decided", "begun"]

    def test_others_run_while_the_user_thinks(self, tmp_path):
        ran = asyncio.Event()

        async def decide(name, _arguments):
            if name == "second":
                await ran.wait()

        async def first(_arguments, _around):
            ran.set()
            return "first"

        async def second(_arguments, _around):
            return "second"

        tools = box(tmp_path, {"first": first, "second": second}, decide=decide)
        answers = asyncio.run(asyncio.wait_for(all_of(tools.run_batch(calls("first", "second"))), 30))
        assert [text for _, text, _ in answers] == ["first", "second"]


PROGRAM = """
import asyncio, sys, time
from halo.files.roots import ConfinedRoot
from halo.records.messages import ToolCall
from halo.records.tools import ToolSpec
from halo.tools.base import Surroundings
from halo.tools.toolbox import Toolbox

def hang(_arguments, _around):
    print("hanging", flush=True)
    time.sleep(3600)

around = Surroundings(ConfinedRoot(sys.argv[1]), {}, lambda _skill, _arguments: None)
tools = Toolbox((ToolSpec("hang", "Odd.", {"type": "object"}),), around, {"hang": hang})

async def go():
    async with asyncio.timeout(0.2):
        async for _ in tools.run_batch([ToolCall("a", "hang", "{}"), ToolCall("b", "hang", "{}")]):
            pass

try:
    asyncio.run(go())  # the loop's own executor, as in a program that uses Halo
except TimeoutError:
    print("left")
"""


def test_a_tool_that_hangs_holds_neither_the_batch_nor_the_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("hanging\nhanging\nleft\n", "")


def test_arguments_fit_or_do_not(bench):
    assert bench.toolbox.fits("grep", {"pattern": "x"})
    assert not bench.toolbox.fits("grep", {"pattern": 1})
    assert not bench.toolbox.fits("grep", {})
    assert not bench.toolbox.fits("what", {"pattern": "x"})
