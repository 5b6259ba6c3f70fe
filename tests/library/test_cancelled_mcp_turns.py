"""Turns that are cancelled again and again while an MCP server works: nothing of it outlives the turn.

The event loop goes on afterwards, as that of a program does. So nothing is tidied up by its end.
"""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import pytest
from making import agent as agent_yaml
from playing import Player, says

from halo import Agent, Workspace
from halo.cli.main import run as halo
from halo.records.messages import Message, ToolCall

PLAIN = Path(__file__).resolve().parents[1] / "tools" / "mcp_servers" / "plain.py"
HANG = Message("assistant", (ToolCall("c1", "mcp__plain__hang", "{}"),))


@pytest.fixture
def place(ws, tmp_path, monkeypatch):
    """A workspace with a server that says which processes it has been."""
    pids = tmp_path / "pids"
    server = {"command": [sys.executable, "-S", str(PLAIN), "good"], "env": {"STATE": str(pids)}}
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent_yaml(mcp=["plain"]),
            ".halo/settings.yaml": json.dumps({"general": {"mcp": {"servers": {"plain": server}}}}),
        }
    )
    monkeypatch.chdir(ws.root)
    monkeypatch.setenv("HALO_HOME", str(ws.home))
    assert halo(["trust", "--yes"]) == 0
    assert halo(["mcp", "lock"]) == 0
    pids.unlink()
    ws.pids = pids
    return ws


async def until(seen):
    async with asyncio.timeout(20):
        while not seen():  # another process makes it so
            await asyncio.sleep(0.01)


# Seconds between one cancelling and the next. A server that hangs has a second until it is told to end.
@pytest.mark.parametrize(
    "pauses", [(), (0,), (0, 0, 0), (0.05,), (0.05, 0.05), (0.3,), (0.9, 0.2), (1.05,), (1.1, 0)]
)
@pytest.mark.parametrize("in_call", [False, True], ids=["while it starts", "in mid-call"])
def test_cancelled_however_often_no_process_and_no_task_is_left(place, pauses, in_call):
    async def go():
        before = asyncio.all_tasks()
        agent = Agent.load(Workspace(place.root), adapter=Player(HANG, says("Here I am.")))
        turn = asyncio.create_task(agent.generate_text("Hang."))
        await until(place.pids.exists)
        if in_call:
            await asyncio.sleep(0.3)
        turn.cancel()
        for pause in pauses:
            await asyncio.sleep(pause)
            turn.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turn
        assert turn.cancelled()
        assert asyncio.all_tasks() - before == set()
        with pytest.raises(ProcessLookupError):  # a zombie would still have its number
            os.kill(int(place.pids.read_text()), 0)
        # The agent is free for the next turn, in which the call is answered.
        assert (await agent.generate_text("Are you there?")).text == "Here I am."
        await agent.close()

    asyncio.run(go())
