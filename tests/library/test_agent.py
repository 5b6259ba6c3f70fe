"""Agents as objects: turns, streams, objects, manual control, changes of the prefix."""

import asyncio
import gc
import json
import threading
import time

import msgspec
import pytest
from making import agent as agent_yaml
from making import skill
from playing import Player, says

from halo import Agent, MemoryFiles, SyncAgent, Workspace, tool
from halo.errors import BusyError, ProviderError, UnknownNameError, UsageError
from halo.library.objects import ObjectError
from halo.models.adapter import TextDelta
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded
from halo.records.messages import Message, Text, ToolCall, ToolResult, user

LAYERS = {
    ".halo/USER.md": "Mira.\n",
    ".halo/agents/default/agent.yaml": agent_yaml(tools=["file_read", "grep"], skills=["sums"]),
    ".halo/agents/default/AGENT.md": "You answer.\n",
    ".halo/agents/default/fewshots/a.yaml": "- user: Hi\n- assistant: Hello\n",
    ".halo/skills/sums/SKILL.md": skill("Add them.", description="adds"),
    "a.md": "one\ntwo\n",
}


@pytest.fixture
def place(ws):
    ws.write(LAYERS)
    return Workspace(ws.root, environ=ws.environ())


def load(place, *replies, **options):
    player = Player(*replies)
    return Agent.load(place, adapter=player, **options), player


@tool(read_only=True)
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def calling(name, **arguments):
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),))


def run(work):
    return asyncio.run(work)


class TestTurns:
    def test_a_turn_with_tools(self, place):
        agent, player = load(place, calling("double", n=4), says("It is 8."), tools=[double])
        result = run(agent.generate_text("Twice four?"))
        assert (result.text, result.reason, result.steps) == ("It is 8.", "done", 2)
        assert [m.role for m in result.messages] == ["user", "assistant", "user", "assistant"]
        assert result.messages[2].content[0].text == "8"
        assert result.messages == agent.history
        assert result.usage.prompt == 6
        assert [spec.name for spec in player.requests[0].prefix.tools] == [
            "file_read", "grep", "double", "session_status", "activate_skill",
        ]  # fmt: skip
        assert (
            "Your available tools: file_read, grep, double, session_status, activate_skill."
            in agent.prefix.system
        )

    def test_the_history_goes_on_and_the_prefix_stays(self, place):
        agent, player = load(place, says("one"), says("two"))
        run(agent.generate_text("1"))
        run(agent.generate_text("2"))
        first, second = player.requests
        assert first.prefix == second.prefix == agent.prefix
        assert second.history[: len(first.history)] == first.history
        assert [m.text for m in second.history] == ["1", "one", "2"]
        assert agent.stats.turns == 2
        assert agent.stats.calls == 2

    def test_clearing_the_history_leaves_the_prefix_alone(self, place):
        agent, player = load(place, says("one"), says("two"))
        run(agent.generate_text("1"))
        before = agent.prefix
        agent.clear_history()
        assert agent.history == ()
        run(agent.generate_text("2"))
        assert agent.prefix is before
        assert [m.text for m in player.requests[1].history] == ["2"]
        assert player.requests[1].messages[0] == user("Hi")  # the few-shots

    def test_an_agent_without_a_workspace_or_of_no_name_is_the_users_mistake(self, place):
        with pytest.raises(UnknownNameError, match="default"):
            Agent.load(place, "defualt")

    @pytest.mark.parametrize("message", ["", "  \n", Message("assistant", (Text("x"),)), ()])
    def test_a_turn_begins_with_something(self, place, message):
        agent, _ = load(place)
        with pytest.raises(UsageError, match="begins with"):
            run(agent.generate_text(message))

    def test_a_failed_turn_can_be_tried_again_without_saying_it_twice(self, place):
        agent, player = load(place, ProviderError("overloaded"), says("hello"))
        with pytest.raises(ProviderError):
            run(agent.generate_text("Hi there"))
        assert agent.history == ()
        run(agent.generate_text("Hi there"))
        assert [m.text for m in player.requests[1].history] == ["Hi there"]

    def test_a_turn_that_fails_later_leaves_every_call_answered(self, place):
        agent, _ = load(place, calling("double", n=1), ProviderError("broke off"), tools=[double])
        with pytest.raises(ProviderError):
            run(agent.generate_text("Twice one?"))
        assert [m.role for m in agent.history] == ["user", "assistant", "user"]
        assert agent.history[2].content[0].text == "2"

    def test_one_turn_at_a_time(self, place):
        agent, _ = load(place, None, says("x"))

        async def go():
            async with agent.stream_text("1"):
                await asyncio.sleep(0.01)
                with pytest.raises(BusyError):
                    await agent.generate_text("2")
                with pytest.raises(BusyError):
                    agent.clear_history()
            return await agent.generate_text("3")

        assert run(go()).text == "x"

    def test_a_program_may_run_many_agents_side_by_side(self, place):
        agents = [load(place, says(str(n)))[0] for n in range(20)]

        async def go():
            return await asyncio.gather(*(a.generate_text("?") for a in agents))

        assert [r.text for r in run(go())] == [str(n) for n in range(20)]


class TestStreams:
    def test_words_and_events_as_they_come(self, place):
        agent, _ = load(place, calling("double", n=4), says("It is 8."), tools=[double])

        async def go():
            async with agent.stream_text("Twice four?") as stream:
                words = [delta async for delta in stream.text()]
                return words, [type(e) for e in [e async for e in stream]], await stream.result()

        words, kinds, result = run(go())
        assert words == ["It is 8."]
        assert [k for k in kinds if k in (MessageAdded, ToolResultAdded, TurnEnded, TextDelta)] == [
            MessageAdded, ToolResultAdded, TextDelta, MessageAdded, TurnEnded,
        ]  # fmt: skip
        assert result.text == "It is 8."

    def test_the_result_comes_without_anybody_reading(self, place):
        agent, _ = load(place, says("hello"))

        async def go():
            return await agent.stream_text("x").result()

        assert run(go()).text == "hello"

    def test_an_error_reaches_whoever_reads_or_waits_each_time(self, place):
        agent, _ = load(place, ProviderError("overloaded"))

        async def go():
            async with agent.stream_text("x") as stream:
                for _ in range(2):
                    with pytest.raises(ProviderError):
                        await stream.result()
                    with pytest.raises(ProviderError):
                        [e async for e in stream]

        run(go())

    def test_two_may_read_at_once(self, place):
        agent, _ = load(place, says("hello"))

        async def words(stream):
            return [delta async for delta in stream.text()]

        async def go():
            async with agent.stream_text("x") as stream:
                return await asyncio.gather(words(stream), words(stream))

        assert run(go()) == [["hello"], ["hello"]]

    def test_leaving_early_breaks_the_turn_off_and_keeps_what_was_said(self, place):
        agent, player = load(place, None, says("again"))

        async def go():
            async with agent.stream_text("x") as stream:
                async for _ in stream.text():
                    break
            assert player.order[-1] == "stream closed"
            return await agent.generate_text("go on")

        assert run(go()).text == "again"
        assert [m.text for m in agent.history] == ["x", "Half an ", "go on", "again"]

    def test_nothing_is_left_behind(self, place):
        agent, _ = load(place, None)

        async def go():
            async with agent.stream_text("x") as stream:
                await asyncio.sleep(0.01)
            del stream
            gc.collect()
            return [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()]

        assert run(go()) == []


class Invoice(msgspec.Struct):
    number: str
    total: float
    lines: list[str] = []


class TestObjects:
    def test_a_value_of_a_type(self, place):
        agent, player = load(place, says('{"number": "7", "total": 12.5}'), tools=[double])
        made = run(agent.generate_object("Read it.", Invoice))
        assert made.value == Invoice("7", 12.5)
        assert not made.repaired
        (request,) = player.requests
        assert request.tool_choice == "none"
        assert request.prefix is agent.prefix  # the tools stay in the cached prefix
        assert request.response_schema["required"] == ["number", "total"]
        assert [m.text for m in agent.history] == ["Read it.", '{"number": "7", "total": 12.5}']

    def test_a_value_of_a_schema(self, place):
        agent, _ = load(place, says('{"n": 3}'))
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        assert run(agent.generate_object("?", schema)).value == {"n": 3}

    def test_a_reply_that_does_not_fit_goes_back_once_with_what_is_wrong(self, place):
        agent, player = load(place, says('{"number": 7}'), says('```json\n{"number": "7", "total": 1}\n```'))
        made = run(agent.generate_object("Read it.", Invoice))
        assert (made.value, made.repaired) == (Invoice("7", 1.0), True)
        assert made.usage.prompt == 6
        again = player.requests[1].history
        assert [m.role for m in again] == ["user", "assistant", "user"]
        assert "must contain ['total']" in again[2].text
        assert len(agent.history) == 2  # the attempt that failed is not part of the conversation

    def test_the_second_failure_is_an_error_and_leaves_no_trace(self, place):
        agent, _ = load(place, says("no"), says("[1]"))
        with pytest.raises(ObjectError) as error:
            run(agent.generate_object("Read it.", Invoice))
        assert error.value.reply == "[1]"
        assert agent.history == ()

    def test_json_that_is_cut_or_sloppy_is_mended_and_then_checked(self, place):
        agent, _ = load(place, says("{number: '7', total: 2,}"))
        assert run(agent.generate_object("?", Invoice)).value == Invoice("7", 2.0)

    @pytest.mark.parametrize("kind", [list[int], int, {"type": "object", "properties": 5}])
    def test_what_no_reply_can_be_is_refused_at_once(self, place, kind):
        agent, player = load(place)
        with pytest.raises(UsageError):
            run(agent.generate_object("?", kind))
        assert not player.requests


class TestManualControl:
    def test_all_results_of_a_batch_go_together(self, place):
        two = Message("assistant", (ToolCall("a", "double", '{"n": 1}'), ToolCall("b", "double", '{"n": 2}')))
        agent, player = load(place, two, says("2 and 4"), tools=[double])

        async def go():
            reply = await agent.send("Both")
            with pytest.raises(UsageError, match="no result for b"):
                await agent.submit_tool_results({"a": "2"})
            with pytest.raises(UsageError, match="no open call c"):
                await agent.submit_tool_results({"a": "2", "b": "4", "c": "6"})
            with pytest.raises(UsageError, match="calls are open"):
                await agent.send("And?")
            return reply, await agent.submit_tool_results({"b": "4", "a": "2"})

        reply, answer = run(go())
        assert [call.id for call in reply.calls] == ["a", "b"]
        assert answer.text == "2 and 4"
        assert len(player.requests) == 2
        assert [r.call_id for r in player.requests[1].history[2].content] == ["a", "b"]

    def test_a_call_can_be_run_by_the_agents_own_tools(self, place):
        agent, _ = load(place, calling("file_read", path="a.md"), says("two lines"))

        async def go():
            reply = await agent.send("Read it")
            return await agent.submit_tool_results([await agent.execute(c) for c in reply.calls])

        assert run(go()).text == "two lines"
        assert "1\tone" in agent.history[2].content[0].text

    def test_a_call_that_fails_leaves_the_calls_open(self, place):
        agent, _ = load(place, calling("double", n=1), ProviderError("busy"), says("2"), tools=[double])

        async def go():
            reply = await agent.send("?")
            results = {c.id: "2" for c in reply.calls}
            with pytest.raises(ProviderError):
                await agent.submit_tool_results(results)
            return await agent.submit_tool_results(results)

        assert run(go()).text == "2"
        assert len(agent.history) == 4

    def test_repeated_ids_are_told_apart(self, place):
        same = Message("assistant", (ToolCall("call_0", "double", '{"n": 1}'),))
        agent, _ = load(place, same, same, says("done"), tools=[double])

        async def go():
            reply = await agent.send("?")
            while reply.calls:
                reply = await agent.submit_tool_results({c.id: "2" for c in reply.calls})

        run(go())
        ids = [c.id for m in agent.history for c in m.calls]
        assert len(set(ids)) == len(ids) == 2


class TestPrefix:
    def test_a_change_says_which_part_and_what_it_costs(self, place):
        agent, player = load(place, says("x"))
        before = agent.prefix
        change = agent.add_tools(double)
        assert change is agent.prefix_changes[0]
        assert "double" in str(change)
        assert agent.prefix.fingerprint != before.fingerprint
        run(agent.generate_text("?"))
        assert player.requests[0].prefix == agent.prefix
        agent.remove_tools("double")
        assert agent.prefix.fingerprint == before.fingerprint
        assert agent.reload() is None
        assert len(agent.prefix_changes) == 2

    def test_few_shots_and_skills_survive_every_change(self, place):
        agent, _ = load(place)
        agent.set_layers({".halo/agents/default/AGENT.md": "You sing."})
        agent.add_tools(double)
        agent.remove_tools("double")
        assert "You sing." in agent.prefix.system
        assert "<id>sums</id>" in agent.prefix.system
        assert [m.text for m in agent.prefix.few_shots] == ["Hi", "Hello"]
        assert "activate_skill" in [t.name for t in agent.prefix.tools]

    def test_layers_in_memory_are_never_written(self, ws, place):
        agent, _ = load(place.with_layers({".halo/USER.md": "Somebody else."}))
        assert "Somebody else." in agent.prefix.system
        assert ws.path(".halo/USER.md").read_text() == "Mira.\n"
        assert not (ws.halo / "build").exists()

    def test_an_edit_on_disk_is_taken_when_asked_for(self, ws, place):
        agent, _ = load(place)
        ws.write({".halo/agents/default/AGENT.md": "You sing.\n"})
        assert "You answer." in agent.prefix.system
        assert agent.reload() is not None
        assert "You sing." in agent.prefix.system

    def test_the_order_of_functions_is_the_programs(self, place):
        @tool(read_only=True)
        def alpha() -> str:
            """First."""
            return "a"

        one, _ = load(place, tools=[double, alpha])
        same, _ = load(place, tools=[double, alpha])
        other, _ = load(place, tools=[alpha, double])
        assert one.prefix.fingerprint == same.prefix.fingerprint != other.prefix.fingerprint

    def test_a_function_that_would_be_dropped_is_told(self, ws, place):
        @tool
        def act() -> str:
            """Act."""
            return ""

        ws.write({".halo/settings.yaml": "general: {tools: {access: readonly}}\n"})
        with pytest.raises(UsageError, match="cannot have act"):
            load(place, tools=[act])

    def test_the_time_in_a_prompt_is_that_of_loading(self, ws, place):
        ws.write({".halo/agents/default/AGENT.md": "It is {{now}}.\n"})
        agent, player = load(place, says("1"), says("2"))
        run(agent.generate_text("a"))
        time.sleep(0.01)
        run(agent.generate_text("b"))
        assert player.requests[0].prefix.system == player.requests[1].prefix.system


class TestWithoutAnEventLoop:
    def test_the_same_from_plain_code(self, place):
        with SyncAgent.load(
            place,
            adapter=Player(calling("double", n=2), says("4"), says('{"n": 1}'), says("x")),
            tools=[double],
        ) as agent:
            assert agent.generate_text("?").text == "4"
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            assert agent.generate_object("?", schema).value == {"n": 1}
            with agent.stream_text("?") as stream:
                assert list(stream.text()) == ["x"]
                assert stream.result().text == "x"
                assert isinstance(list(stream)[-1], TurnEnded)
            agent.clear_history()
            assert agent.agent.history == ()
            assert (agent.stats.turns, agent.stats.calls) == (3, 4)
            assert agent.stats is agent.agent.stats
            assert agent.prefix is agent.agent.prefix
            assert "double" in [spec.name for spec in agent.prefix.tools]
        assert not [t for t in threading.enumerate() if t.name == "halo agent"]

    def test_inside_a_running_loop_too(self, place):
        async def notebook():
            with SyncAgent.load(place, adapter=Player(says("x"))) as agent:
                return agent.generate_text("?").text

        assert run(notebook()) == "x"

    def test_after_closing_it_says_so(self, place):
        agent = SyncAgent.load(place, adapter=Player())
        agent.close()
        agent.close()
        with pytest.raises(RuntimeError, match="closed"):
            agent.generate_text("?")


def test_importing_halo_loads_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys, halo; "
        "print([m for m in ('asyncio', 'msgspec', 'httpx2', 'openai', 'anthropic') if m in sys.modules]); "
        "from halo import Agent, Workspace, tool; print(Agent.__name__); "
        "print([m for m in ('openai', 'anthropic', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["[]", "Agent", "[]"]


def test_a_real_model_answers(ws, model_file):
    """The whole way: artifact, engine, figures."""
    ws.write(
        {
            **LAYERS,
            ".halo/agents/default/agent.yaml": json.dumps(
                {
                    "model": {
                        "provider": "local",
                        "id": model_file,
                        "temperature": 0,
                        "seed": 7,
                        "max_tokens": 20,
                    },
                    "context": {"max_tokens": 2048},
                }
            ),
        }
    )
    trusted = ws.environ()
    agent_home = ws.write({}).home
    assert agent_home
    place = Workspace(ws.root, environ=trusted)
    from halo.models.opening import open_local
    from halo.records.artifacts import Binding

    binding = Binding("local", model_file, max_tokens=20, temperature=0.0, seed=7)
    adapter = open_local(
        binding, context_tokens=2048, cache=str(ws.home / "cache"), base_dir=str(ws.root), threads=1
    )

    async def go():
        async with Agent.load(place, adapter=adapter) as agent:
            first = await agent.generate_text("What is the capital of France?")
            second = await agent.generate_text("And of Spain?")
            agent.clear_history()
            third = await agent.generate_text("What is the capital of Italy?")
            await adapter.close()
            return first, second, third, agent.stats

    first, second, third, stats = run(go())
    assert "Paris" in first.text
    assert second.usage.read > first.usage.prompt - 8
    assert third.usage.read > 50  # clearing the history kept the prefix in the engine's cache
    assert stats.turns == 3
    assert stats.cached > 0.3


def test_results_by_object_and_by_text_are_the_same(place):
    agent, _ = load(place, calling("double", n=1), says("2"), tools=[double])

    async def go():
        reply = await agent.send("?")
        return await agent.submit_tool_results([ToolResult(c.id, "2") for c in reply.calls])

    assert run(go()).text == "2"


def test_the_agent_can_ask_for_its_own_figures(place):
    agent, _ = load(place, calling("session_status"), says("fine"))
    run(agent.generate_text("How is it going?"))
    told = agent.history[2].content[0].text
    assert "turn 1" in told.lower()
    assert "25" in told or "24" in told  # steps left of the turn


def test_what_is_no_tool_or_no_budget_is_said_at_once(place):
    def plain(x: int) -> int:
        """Double."""
        return 2 * x

    with pytest.raises(TypeError, match="plain is no tool: decorate it"):
        load(place, tools=[plain])
    with pytest.raises(TypeError, match=r"halo\.Budgets"):
        load(place, budgets={"turn": {"steps": 3}})
    agent, _ = load(place)
    with pytest.raises(TypeError, match="plain is no tool"):
        agent.add_tools(plain)


def test_a_change_of_sandbox_leaves_the_fingerprint_alone(ws, place):
    """In memory, in the folder: the same prompt, other files."""
    ws.write({".halo/agents/default/agent.yaml": agent_yaml(tools=["file_read", "file_write", "shell_exec"])})
    assert ws.cli("trust", "-y").returncode == 0
    files = MemoryFiles({"a.md": b"in memory\n"})
    reads, writes = calling("file_read", path="a.md"), calling("file_write", path="new/b.md", content="x")
    runs = calling("shell_exec", command="ls")
    replies = (reads, writes, runs, says("done"))
    there, _ = load(Workspace(ws.root, files=files, environ=ws.environ()), *replies)
    here, _ = load(Workspace(ws.root, environ=ws.environ()))
    assert there.prefix == here.prefix
    run(there.generate_text("go"))
    told = [m.content[0].text for m in there.history if m.role == "user" and not m.text]
    assert "in memory" in told[0]
    assert files.read("new/b.md", 10) == b"x"
    assert not (ws.root / "new").exists()
    assert "no program reaches them" in told[2]
