"""The edges of agents as objects: replies that are cut, calls that are open, names, budgets, closing."""

import asyncio
import json
import sys
from pathlib import Path

import msgspec
import pytest
from making import agent as agent_yaml
from playing import Player, says

from halo import Agent, SyncAgent, Workspace, tool
from halo.cli.main import run as halo
from halo.errors import BudgetError, MissingKeyError, StartError, UsageError
from halo.library.objects import ObjectError
from halo.records.budgets import Budget, Budgets
from halo.records.messages import Message, Text, ToolCall, ToolResult

PLAIN = Path(__file__).resolve().parents[1] / "tools" / "mcp_servers" / "plain.py"


class City(msgspec.Struct):
    name: str


@tool(read_only=True)
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@pytest.fixture
def place(ws):
    ws.write(
        {
            ".halo/USER.md": "Mira.\n",
            ".halo/agents/default/agent.yaml": agent_yaml(tools=["file_read", "grep"]),
            ".halo/agents/default/AGENT.md": "You answer.\n",
        }
    )
    return Workspace(ws.root, environ=ws.environ())


def load(place, *replies, stop=None, **options):
    player = Player(*replies, stop=stop)
    return Agent.load(place, adapter=player, **options), player


def calling(name, **arguments):
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),))


def run(work):
    return asyncio.run(work)


# Objects.


@pytest.mark.parametrize("reply", ['{"name": "Par', '{"name": "Paris", "twin": "Lon'])
def test_a_reply_that_was_cut_off_is_never_taken_for_the_whole(place, reply):
    """Closing what is open would make `Par` out of `Paris`, and nobody would know."""
    agent, player = load(place, says(reply), says(reply), stop="max_tokens")
    with pytest.raises(ObjectError, match="cut off"):
        run(agent.generate_object("Which city?", City))
    assert "cut off" in player.requests[1].history[-1].text
    assert agent.history == ()


@pytest.mark.parametrize("reply", ["[" * 100_000, '{"name":' * 5_000, '{"name": "x", "y": ' + "[" * 100_000])
def test_a_reply_without_bottom_is_a_reply_that_does_not_fit(place, reply):
    agent, _ = load(place, says(reply), says('{"name": "Paris"}'))
    assert run(agent.generate_object("Which city?", City)).value == City("Paris")


def test_an_object_while_calls_are_open_answers_them_first(place):
    agent, player = load(place, calling("double", n=1), says('{"name": "x"}'), tools=[double])

    async def go():
        await agent.send("Twice one?")
        await agent.generate_object("Which city?", City)

    run(go())
    sent = player.requests[1].history
    assert [type(m.content[0]) for m in sent] == [Text, ToolCall, ToolResult, Text]
    assert agent.history[: len(sent)] == sent
    assert agent.history[-1].text == '{"name": "x"}'


# Input and replies.


@pytest.mark.parametrize("block", [ToolResult("c1", "2"), ToolCall("c1", "double", "{}")])
def test_calls_and_results_are_no_input_of_a_turn(place, block):
    agent, player = load(place)
    with pytest.raises(UsageError, match="calls or results"):
        run(agent.generate_text([Text("x"), block]))
    assert not player.requests


def test_a_reply_without_a_word_leaves_no_empty_message(place):
    agent, _ = load(place, Message("assistant", ()))
    run(agent.send("Hello?"))
    assert agent.history[-1].content == (Text(""),)


def test_a_reply_in_manual_control_has_no_id_of_a_few_shot(ws, place):
    shot = (
        "- user: 1?\n- assistant: ''\n  calls: [{name: grep, arguments: {pattern: a}}]\n"
        "- results: ['2']\n- assistant: '2'\n"
    )
    ws.write({".halo/agents/default/fewshots/a.yaml": shot})
    agent, _ = load(place)
    (taken,) = [call.id for message in agent.prefix.few_shots for call in message.calls]
    agent, _ = load(place, Message("assistant", (ToolCall(taken, "grep", "{}"),)))
    reply = run(agent.send("2?"))
    assert reply.calls[0].id != taken


# Names of functions.


def test_a_function_with_the_name_of_another_tool_is_refused(place):
    @tool(read_only=True)
    def grep(words: str) -> str:
        """Look for words."""
        return words

    with pytest.raises(UsageError, match="two tools of the name grep"):
        load(place, tools=[grep])
    with pytest.raises(UsageError, match="two tools of the name double"):
        load(place, tools=[double, double])
    agent, _ = load(place)
    with pytest.raises(UsageError, match="two tools of the name grep"):
        agent.add_tools(grep)
    assert [spec.name for spec in agent.prefix.tools].count("grep") == 1


@pytest.mark.parametrize("name", ["größe", "two words", "x" * 65])
def test_a_name_that_providers_do_not_take_is_refused(name):
    with pytest.raises(TypeError, match="name of a tool"):
        tool(name=name)(double.function)


# What the program should know.


def test_what_an_agent_is_loaded_without_is_said(ws, place):
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent_yaml(tools=["file_write"]),
            ".halo/settings.yaml": "general: {tools: {access: readonly}}\n",
        }
    )
    agent, _ = load(place)
    assert agent.notices == ()  # the settings want it so
    ws.write({".halo/settings.yaml": "{}\n"})
    agent.reload()
    (notice,) = agent.notices
    assert "only reads here" in notice
    assert "file_write" in notice


def test_a_missing_key_is_said_by_the_first_call(ws, place):
    model = {"provider": "openai", "id": "m"}
    ws.write({".halo/agents/default/agent.yaml": agent_yaml(model=model)})
    agent = Agent.load(place)
    with pytest.raises(MissingKeyError):
        run(agent.generate_text("Hello"))
    assert agent.history == ()


# Budgets.


def test_calls_outside_of_turns_count_in_the_budget_of_the_run(place):
    budgets = Budgets(run=Budget(steps=2))
    agent, player = load(place, *[says('{"name": "x"}')] * 3, budgets=budgets)

    async def go():
        await agent.generate_object("?", City)
        await agent.send("?")
        with pytest.raises(BudgetError, match=r"budgets\.run\.steps: 2"):
            await agent.generate_object("?", City)
        with pytest.raises(BudgetError):
            await agent.send("?")
        return await agent.generate_text("?")

    assert run(go()).reason == "steps"
    assert len(player.requests) == 2


def test_a_call_outside_of_a_turn_is_broken_off_when_its_time_is_over(place):
    agent, player = load(place, None, budgets=Budgets(turn=Budget(seconds=0.05)))
    with pytest.raises(BudgetError, match=r"turn\.seconds"):
        run(agent.send("?"))
    assert player.order == ["stream opened", "stream closed"]
    assert agent.history == ()


def test_a_bound_in_money_without_a_price_is_refused_outside_of_turns_too(place):
    agent, player = load(place, says("x"), budgets=Budgets(run=Budget(cost=1.0)))
    with pytest.raises(StartError, match="cannot be kept"):
        run(agent.send("?"))
    assert not player.requests


# Closing.


def test_closing_breaks_off_the_turn_that_runs(place):
    player = Player(None)

    async def go():
        async with Agent.load(place, adapter=player) as agent:
            agent.stream_text("Go on and on")  # nobody keeps or reads it
            await asyncio.sleep(0.02)
        return player.order[-1], [t for t in asyncio.all_tasks() if t is not asyncio.current_task()], agent

    last, tasks, agent = run(go())
    assert last == "stream closed"
    assert tasks == []
    assert [m.text for m in agent.history] == ["Go on and on", "Half an "]


def test_without_an_event_loop_closing_breaks_it_off_too(place):
    player = Player(None)
    with SyncAgent.load(place, adapter=player) as agent:
        events = iter(agent.stream_text("Go on and on"))
        next(events)
    assert player.order[-1] == "stream closed"


def test_an_agent_keeps_no_stream_that_is_over(place):
    agent, _ = load(place, says("x"))
    run(agent.generate_text("?"))
    assert not agent._streams


# Calls by hand.


def draft(agent, text="My answer."):
    return run(agent.execute(ToolCall("c1", "draft", json.dumps({"content": text})))).text


def test_tools_remember_a_turn_by_hand_until_the_next_one_begins(ws, place):
    """Whoever makes the calls: three drafts are reviewed in a turn, whatever changes of the prefix meanwhile."""
    ws.write({".halo/agents/default/agent.yaml": agent_yaml(tools=["draft"])})
    agent, _ = load(place, calling("draft", content="x"), says("on"), says("next"))
    reply = run(agent.send("?"))
    assert "2 more can be reviewed" in draft(agent)
    agent.add_tools(double)
    assert "1 more can be reviewed" in draft(agent)
    run(agent.submit_tool_results({c.id: "seen" for c in reply.calls}))
    assert "the last review" in draft(agent)
    assert "That was draft 4" in draft(agent)
    run(agent.send("And?"))
    assert "2 more can be reviewed" in draft(agent)


def test_where_no_call_is_open_there_is_nothing_to_answer(place):
    agent, player = load(place)
    with pytest.raises(UsageError, match="no calls are open"):
        run(agent.submit_tool_results({}))
    with pytest.raises(UsageError, match="no open call c"):
        run(agent.submit_tool_results({"c": "6"}))
    assert not player.requests


# MCP.


def test_calls_of_mcp_tools_can_be_made_by_hand(ws, monkeypatch):
    command = [sys.executable, "-S", str(PLAIN), "good"]
    servers = {"general": {"mcp": {"servers": {"plain": {"command": command}}}}}
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent_yaml(mcp=["plain"]),
            ".halo/settings.yaml": json.dumps(servers),
        }
    )
    monkeypatch.chdir(ws.root)
    monkeypatch.setenv("HALO_HOME", str(ws.home))
    assert halo(["trust", "--yes"]) == 0
    assert halo(["mcp", "lock"]) == 0
    agent, _ = load(Workspace(ws.root))
    result = run(agent.execute(ToolCall("c1", "mcp__plain__echo", '{"text": "hello"}')))
    assert (result.text, result.is_error) == ("hello", False)
