"""`halo usage`: turns of a scripted provider, with prices, a child that is gone, and a deletion."""

import json

import pytest
from making import agent

PRICES = """\
name: OpenAI
default: m
models:
  m:
    as_of: 2026-01-01
    prices:
      - {from: 2026-01-01, currency: EUR, input: 2, output: 8}
"""


def reply(text, calls=None, model="m"):
    delta = {"content": text, **({"tool_calls": calls} if calls else {})}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
    begun = {"model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return begun, {**end, "model": model}, {**usage, "model": model}


def start(message):
    arguments = json.dumps({"agent_id": "helper", "message": message, "cleanup": "delete"})
    return [
        {
            "index": 0,
            "id": "c1",
            "type": "function",
            "function": {"name": "start_session", "arguments": arguments},
        }
    ]


@pytest.fixture
def ws(make_workspace, scripted):
    model = {"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1", "api": "chat"}
    made = make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=model, team=["helper"]),
            ".halo/agents/default/AGENT.md": "You lead.\n",
            ".halo/agents/helper/agent.yaml": agent(name="Helper", model={**model, "id": "n"}),
            ".halo/agents/helper/AGENT.md": "You help.\n",
            ".halo/models/openai.yaml": PRICES,
        }
    )
    assert made.cli("trust", "-y").returncode == 0
    return made


def usage(ws, *words, code=0):
    done = ws.cli("usage", *words, TZ="Europe/Berlin")
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def rows(ws, *words):
    document = json.loads(usage(ws, *words, "--format", "json")[0])
    return {row["key"]: row for row in document["rows"]}, document["total"]


def test_nothing_was_used_yet(ws):
    assert usage(ws) == ("", "no model calls\n")


def test_what_a_run_has_cost_and_still_has_when_its_sessions_are_gone(ws, scripted):
    scripted.says_chat(*reply("I ask.", start("Look.")))
    scripted.says_chat(*reply("Asked."))
    scripted.says_chat(*reply("Found.", model="n"))
    scripted.says_chat(*reply("All is well."))
    done = ws.cli("run", "Go.", OPENAI_API_KEY="sk-x")
    assert done.returncode == 0, done.stderr
    assert len(scripted.requests) == 4
    agents, total = rows(ws)
    assert (agents["default"]["calls"], agents["helper"]["calls"]) == (3, 1)
    assert agents["default"]["cost"] == {"EUR": pytest.approx(3 * (1000 * 2 + 100 * 8) / 1e6)}
    assert (agents["helper"]["cost"], agents["helper"]["unpriced"]) == ({}, 1)
    assert (total["uncached"], total["output"]) == (4000, 400)
    assert set(rows(ws, "--by", "model")[0]) == {"openai/m", "openai/n"}
    (run,) = rows(ws, "--by", "run")[0].values()
    assert (run["calls"], run["title"]) == (4, "Go.")

    text, told = usage(ws)
    head, first, _, last = text.splitlines()
    assert head.split() == ["agent", "calls", "failed", "sent", "from", "cache", "produced", "cost"]
    assert first.split() == ["default", "3", "3,000", "0%", "300", "0.0084", "EUR"]
    assert last.split()[0] == "total"
    assert told == "1 of 4 have no price\n"

    assert ws.cli("session", "delete", run["key"], "-y").returncode == 0
    assert rows(ws)[0] == agents
    assert rows(ws, "--since", "2100-01-01") == (
        {},
        {**total, **dict.fromkeys(("calls", "uncached", "output", "unpriced"), 0), "cost": {}},
    )


def test_broken_settings_are_told_and_cost_no_answer(ws):
    ws.write({".halo/settings.yaml": "general: {promt: 1}\n"})
    out, err = usage(ws)
    assert out == ""
    assert err.startswith("warning: workspace:.halo/settings.yaml:1: unknown key 'promt'")


def test_what_makes_no_sense_is_said(ws):
    assert "lies before" in usage(ws, "--since", "2026-02-02", "--until", "2026-02-01", code=2)[1]
    assert "does not match" in usage(ws, "--since", "yesterday", code=2)[1]
