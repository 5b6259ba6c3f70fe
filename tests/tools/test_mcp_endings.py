"""MCP servers that end by themselves: each time with their exit code, and the user reads their last words."""

import asyncio

import pytest
from mcp_bench import Turn, plain

from halo.workspace.mcp.servers import McpServer

# How a program may end right after its start, before anything was agreed upon. Pipes close in any order, and
# what the kernel tells of an end comes by ways of its own, so each is tried again and again.
AT_ONCE = {
    "without a word to hear": "echo no licence >&2; exit 5",
    "after it closed its input": "exec 0<&-; sleep 0.1; echo no licence >&2; exit 5",
    "after it closed its output": "exec 1>&-; sleep 0.1; echo no licence >&2; exit 5",
    "after it closed both": "exec 0<&- 1>&-; sleep 0.1; echo no licence >&2; exit 5",
    "after it read": "read line; echo no licence >&2; exit 5",
    "its errors first": "echo no licence >&2; exec 2>&-; sleep 0.1; exit 5",
    "its errors and output first": "echo no licence >&2; exec 1>&- 2>&-; sleep 0.1; exit 5",
}


@pytest.fixture
def turn(tmp_path):
    return Turn(plain(), tmp_path)


def shell(script):
    return McpServer(command=("/bin/sh", "-c", script))


@pytest.mark.parametrize("script", AT_ONCE.values(), ids=AT_ONCE)
def test_one_that_ends_right_after_its_start_says_why_every_time(turn, script):
    turn.start = turn.start._replace(server=shell(script))
    said = "the MCP server s ended (exit code 5)"
    for _ in range(5):
        turn.notices.clear()
        result = turn.call("echo", text="x")
        assert (result.text, result.is_error) == (said, True)
        assert turn.notices == [f"warning: {said}\nno licence"]


@pytest.mark.parametrize("output", ["", ">&-"], ids=["and its output", "alone"])
def test_one_whose_child_keeps_its_errors_open(turn, monkeypatch, output):
    # While its output is open, a program that read nothing looks like one that does not know the question.
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.5)
    turn.start = turn.start._replace(server=shell(f"sleep 60 {output} & echo no licence >&2; exit 5"))
    assert turn.call("echo", text="x").text == "the MCP server s ended (exit code 5)"
    assert turn.notices == ["warning: the MCP server s ended (exit code 5)\nno licence"]


def test_many_that_end_at_once_say_it_each(turn):
    turn.start = turn.start._replace(server=shell(AT_ONCE["without a word to hear"]))

    async def all_at_once():
        return await asyncio.gather(*(turn.run(("echo", {"text": "x"})) for _ in range(20)))

    said = [result.text for results in asyncio.run(all_at_once()) for result in results]
    assert said == ["the MCP server s ended (exit code 5)"] * 20
    assert turn.notices == ["warning: the MCP server s ended (exit code 5)\nno licence"] * 20


def test_one_that_a_signal_ends(turn):
    turn.start = turn.start._replace(server=shell("echo out of memory >&2; kill -9 $$"))
    assert turn.call("echo", text="x").text == "the MCP server s ended (exit code -9)"
    assert turn.notices == ["warning: the MCP server s ended (exit code -9)\nout of memory"]


def test_a_crash_in_mid_call_is_told_every_time(turn):
    for _ in range(5):
        turn.notices.clear()
        assert turn.call("crash").text == "the MCP server s ended (exit code 7)"
        assert turn.notices == ["warning: the MCP server s ended (exit code 7)\nI am done for:"]


def test_one_that_closes_its_output_in_mid_call_and_then_ends(turn):
    """That its output ended is known at once, the exit code a third of a second later."""
    turn.start = turn.start._replace(server=plain("silent"))
    assert turn.call("echo", text="x").text == "the MCP server s ended (exit code 9)"
    assert turn.notices == ["warning: the MCP server s ended (exit code 9)\nI say nothing"]


def test_one_that_reads_no_more_and_then_ends(turn):
    """The second call cannot be written, before the program has said why and is gone."""
    turn.start = turn.start._replace(server=plain("deaf"))
    first, second = turn.calls(("echo", {"text": "x"}), ("echo", {"text": "y"}))
    assert (first.text, first.is_error) == ("x", False)
    assert (second.text, second.is_error) == ("the MCP server s ended (exit code 8)", True)
    assert turn.notices == ["warning: the MCP server s ended (exit code 8)\nI hear nothing"]
