"""A line that is nested beyond what can be read costs that line alone, in every file that Halo reads."""

from zlib import crc32

import pytest
from kept import Shelf
from making import agent

from halo.sessions.ids import month_of

COMMANDS = (
    "session list",
    "session list --agent a --format json",
    "session show {id}",
    "session tail {id}",
    "session search depth",
    "session export {id} --format markdown",
    "session export {id} --format json",
    "session export {id} --format openai",
    "session context {id}",
    "session repair",
    "session repair --apply",
    "usage",
    "session fork {id}",
    "session list",
)


def deep(depth, before, after):
    record = before + b"[" * depth + b"]" * depth + after
    return record[:-1] + b',"crc":"%08x"}\n' % crc32(record)


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {".halo/agents/a/agent.yaml": agent(name="Ada"), ".halo/agents/a/AGENT.md": "You are a.\n"}
    )


@pytest.mark.parametrize("depth", [900, 9_000, 100_000])
def test_no_command_ends_because_of_it(ws, depth):
    shelf = Shelf(ws.halo / "sessions", ws.home)
    good, bad = shelf.talk(), shelf.talk()
    assert ws.cli("usage").returncode == 0
    event = b'{"format":1,"seq":7,"ts":"2026-11-30T10:00:00.000Z","type":"message","turn":1,"data":'
    message = b'{"message":{"role":"assistant","content":[{"type":"text","text":"x","provider_data":{"provider":"openai","data":{"a":'
    month = ws.halo / "sessions" / month_of(good.id)
    with open(bad.events, "ab") as log:
        log.write(deep(depth, event + message, b"}}}]}}}"))
        log.write(deep(depth, event.replace(b":7", b":8"), b"}"))
    for name in ("index.jsonl", "usage.jsonl"):
        with (month / name).open("ab") as file:
            file.write(deep(depth, b'{"format":1,"id":"%s","settings":' % bad.id.encode(), b"}"))
    with (ws.halo / "sessions" / "spent.jsonl").open("ab") as file:
        file.write(deep(depth, b'{"format":1,"id":"x","calls":', b"}"))
    for command in COMMANDS:
        for folder in (good, bad):
            done = ws.cli(*command.format(id=folder.id).split())
            assert "Traceback" not in done.stderr, f"{command}: {done.stderr}"
            assert done.returncode in (0, 1), f"{command}: {done.stderr}"
    assert good.id in ws.cli("session", "list").stdout
    assert bad.id in ws.cli("session", "list").stdout
