"""The eighteen faults that were found in the only implementation of the agent framework: none of them is here.

Each test is named by what goes wrong there. Where a room has tests of its own for the matter, the one here is
short: it shows the whole way, as a program sees it.
"""

import asyncio
import json
import os
import shutil

import pytest
from making import agent as agent_yaml
from making import compiled as compiled_target
from making import skill
from playing import Player, says

from halo import Agent, Workspace, tool
from halo.models.adapter import Finished
from halo.models.chat_stream import ChatStream
from halo.models.failures import Call
from halo.records.artifacts import PROVIDERS
from halo.records.messages import Message, ToolCall, ToolResult, user
from halo.records.targets import AgentTarget
from halo.records.usage import Usage
from halo.runner.mending import mend

AGENT = ".halo/agents/default/agent.yaml"
LAYERS = {
    ".halo/USER.md": "Mira.\n",
    AGENT: agent_yaml(tools=["file_read", "grep"], skills=["sums"], context={"max_tokens": 6000, "strategies": ["truncate"]}),
    ".halo/agents/default/AGENT.md": "You answer.\n",
    ".halo/agents/default/fewshots/a.yaml": "- user: Hi\n- assistant: Hello\n",
    ".halo/skills/sums/SKILL.md": skill("Add them.", description="adds"),
    ".halo/skills/sums/references/table.md": "1 + 1 = 2\n",
    "a.md": "one\n",
}  # fmt: skip


@pytest.fixture
def place(ws):
    ws.write(LAYERS)
    return Workspace(ws.root, environ=ws.environ())


def load(place, *replies, **options):
    player = Player(*replies)
    return Agent.load(place, adapter=player, **options), player


def calling(name, identity="c1", **arguments):
    return Message("assistant", (ToolCall(identity, name, json.dumps(arguments)),))


def compiled(layers):
    return compiled_target(layers, AgentTarget("default"))


def run(work):
    return asyncio.run(work)


def answered(history):
    """Tell whether every call of a history has exactly one result, in the message behind it."""
    for before, after in zip(history, (*history[1:], None), strict=True):
        wanted = [call.id for call in before.calls]
        have = [b.call_id for b in after.content if isinstance(b, ToolResult)] if after else []
        if wanted != have:
            return False
    return not any(isinstance(b, ToolResult) for b in history[0].content) if history else True


def test_1_every_provider_that_is_named_exists(place):
    from halo.models.opening import open_adapter
    from halo.records.artifacts import Binding

    for provider in set(PROVIDERS) - {"local"}:
        opened = open_adapter(
            Binding(provider, "m"), tool_mode="native", key="k", trusted=False, context_tokens=1, cache="", base_dir=""
        )  # fmt: skip
        assert opened.provider == provider


def test_2_a_result_and_its_call_are_never_parted_by_shortening(place):
    many = [calling("file_read", str(n), path="a.md") for n in range(40)]
    agent, player = load(place, *many[:8], says("done"), says("again"))
    agent.take_history(
        [m for n in range(40) for m in (user("word " * 150), calling("grep", f"h{n}", pattern="x"), _result(f"h{n}"))]
    )  # fmt: skip
    run(agent.generate_text("go"))
    for request in player.requests:
        assert answered(request.history)
    assert len(player.requests[0].history) < 120


def _result(call):
    return Message("user", (ToolResult(call, "text " * 100),))


def test_3_one_large_message_does_not_hide_the_older_ones(place):
    agent, player = load(place, says("ok"))
    agent.take_history(
        [
            *(m for n in range(60) for m in (user(f"old {n} " + "w " * 100), says(f"answer {n}"))),
            user("large " * 3000),
            says("seen"),
        ]
    )
    run(agent.generate_text("go"))
    sent = player.requests[0].history
    assert sent[-1].text == "go"
    assert next(m.role for m in sent) == "user"
    before = [m.text for m in agent.history]
    assert [t for t in before if t in {m.text for m in sent}][: len(sent)] == [m.text for m in sent]
    assert len(sent) >= 3


def test_4_a_changed_system_text_keeps_few_shots_and_skills(place):
    agent, _ = load(place)
    agent.set_layers({".halo/agents/default/AGENT.md": "You sing."})
    assert [m.text for m in agent.prefix.few_shots] == ["Hi", "Hello"]
    assert "<id>sums</id>" in agent.prefix.system


def test_5_no_layer_of_the_system_text_vanishes(place):
    agent, _ = load(place.with_layers({".halo/INSTRUCTIONS.md": "Rules.", ".halo/INDEX.md": "Index."}))
    for text in ("Mira.", "You answer.", "Rules.", "Index."):
        assert text in agent.prefix.system


def test_6_results_of_parallel_calls_go_back_together(place):
    both = Message(
        "assistant", (*calling("file_read", "a", path="a.md").calls, *calling("nonsense", "b").calls)
    )
    agent, player = load(place, both, says("done"))
    run(agent.generate_text("go"))
    assert len(player.requests) == 2  # not one call a result
    assert [r.call_id for r in player.requests[1].history[2].content] == [
        "a",
        "b",
    ]  # no tool, and yet an answer
    assert answered(agent.history)


def test_7_invalid_arguments_never_run_as_an_empty_object(place):
    ran = []

    @tool
    def wipe(folder: str = "everything") -> str:
        """Wipe."""
        ran.append(folder)
        return "wiped"

    broken = Message("assistant", (ToolCall("c", "wipe", "so, er, {"),))
    agent, player = load(place, broken, says("sorry"), tools=[wipe])
    run(agent.generate_text("go"))
    assert not ran
    assert player.requests[1].history[2].content[0].is_error


def test_8_a_stream_ends_once_with_its_real_figures_and_is_remembered(place):
    stream = ChatStream(Call("openai", "", "m"), "digest")
    stream.feed({"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]})
    stream.feed({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
    stream.feed({"choices": [], "usage": None})
    finished = stream.finish()
    assert isinstance(finished, Finished)
    assert finished.usage == Usage(uncached=9, output=2)
    agent, _ = load(place, says("hello"))

    async def go():
        async with agent.stream_text("x") as stream:
            return [e async for e in stream]

    run(go())
    assert [m.text for m in agent.history] == ["x", "hello"]


def test_9_a_new_message_is_no_cache_miss(place):
    """The tokens that should come from the cache are those of the request before, not of this one."""
    agent, _ = load(place, says("a"), says("b"))

    async def go():
        async with agent.stream_text("1") as stream:
            first = [str(e) async for e in stream]
        async with agent.stream_text("2") as stream:
            return first + [str(e) async for e in stream]

    assert not [e for e in run(go()) if "warning" in e]


def test_10_what_is_warmed_is_the_very_same_prefix(place):
    agent, player = load(place, says("."), says("x"))

    async def go():
        await agent.warm()
        await agent.generate_text("hi")

    run(go())
    warmed, used = player.requests
    assert warmed.prefix == used.prefix == agent.prefix
    assert warmed.prefix.tools
    assert warmed.binding.max_tokens == 1
    assert [m.text for m in used.history] == ["hi"]


def test_11_the_fingerprint_knows_no_order_of_keys_or_folders():
    reordered = dict(reversed(LAYERS.items()))
    assert compiled(LAYERS).manifest.fingerprint == compiled(reordered).manifest.fingerprint


def test_12_few_shots_cannot_change_behind_the_fingerprint(place):
    agent, _ = load(place)
    with pytest.raises(AttributeError):
        agent.prefix.few_shots[0].role = "assistant"
    with pytest.raises(AttributeError):
        agent.prefix.few_shots = ()
    # The model is no part of what the model is told; states and recordings know it apart (the binding).
    other = LAYERS | {
        AGENT: agent_yaml(
            tools=["file_read", "grep"], skills=["sums"], model={"provider": "openai", "id": "n"}
        )
    }
    assert compiled(LAYERS).manifest.fingerprint == compiled(other).manifest.fingerprint
    assert compiled(LAYERS).manifest.runtime.binding != compiled(other).manifest.runtime.binding


@pytest.mark.parametrize(
    "front",
    ["description: >\n  adds\n  numbers", "description: |\n  adds\n  numbers", 'description: "adds: numbers"', "\ufeffdescription: adds"],
)  # fmt: skip
def test_13_front_matter_is_yaml(front):
    bom = "\ufeff" if front.startswith("\ufeff") else ""
    text = f"{bom}---\nname: sums\n{front.removeprefix(bom)}\n---\n\nAdd.\n"
    prompt = compiled({**LAYERS, ".halo/skills/sums/SKILL.md": text}).prompt
    (line,) = (x for x in prompt.splitlines() if "<description>" in x)
    assert "adds" in line
    assert ">" not in line.replace("<description>", "").replace("</description>", "")


def test_14_mended_json_is_checked_before_anybody_believes_it(place):
    agent, player = load(place, says('{"a": [1'), says('{"a": [1, 2]}'))
    schema = {"type": "object", "properties": {"a": {"type": "array", "minItems": 2}}, "required": ["a"]}
    made = run(agent.generate_object("?", schema))
    assert (made.value, made.repaired) == ({"a": [1, 2]}, True)
    assert len(player.requests) == 2


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_15_commands_have_no_environment_no_outside_and_no_survivors(ws):
    ws.write({**LAYERS, AGENT: agent_yaml(tools=["shell_exec", "file_write"])})
    assert ws.cli("trust", "-y").returncode == 0
    os.symlink("/tmp", ws.root / "out")
    environ = ws.environ(SECRET_TOKEN="hunter22")
    agent, _ = load(Workspace(ws.root, environ=environ), access="workspace")

    async def go():
        env = await agent.execute(calling("shell_exec", command="env; sleep 60 & echo begun").calls[0])
        out = await agent.execute(calling("file_write", path="out/escaped.txt", content="x").calls[0])
        return env, out

    env, out = run(go())
    assert "hunter22" not in env.text
    assert "begun" in env.text
    assert out.is_error
    assert not os.path.exists("/tmp/escaped.txt")


def test_16_a_history_of_elsewhere_keeps_calls_and_ids(place):
    agent, player = load(place, says("ok"))
    history = [user("look"), calling("grep", "id-7", pattern="x"), _result("id-7"), says("found")]
    agent.take_history(history)
    run(agent.generate_text("and?"))
    assert player.requests[0].history[:4] == tuple(history)
    dangling = (user("look"), calling("grep", "id-8", pattern="x"))
    mended, repairs = mend(dangling)
    assert answered(mended)
    assert [r.kind for r in repairs] == ["orphan"]


def test_17_the_result_of_a_stream_always_settles(place):
    from halo.errors import ProviderError

    agent, _ = load(place, ProviderError("no"), says("yes"))

    async def go():
        with pytest.raises(ProviderError):
            await asyncio.wait_for(agent.stream_text("x").result(), 5)
        stream = agent.stream_text("x")
        first = [d async for d in stream.text()]
        second = [d async for d in stream.text()]
        return first, second, (await asyncio.wait_for(stream.result(), 5)).text

    assert run(go()) == (["yes"], ["yes"], "yes")


def test_18_the_files_of_a_skill_can_be_reached(place):
    agent, _ = load(place)

    async def go():
        text = (await agent.execute(calling("activate_skill", skill_id="sums").calls[0])).text
        path = next(w.strip("-` ") for w in text.splitlines() if "table.md" in w)
        return text, (await agent.execute(calling("file_read", path=path).calls[0])).text

    text, table = run(go())
    assert "Add them." in text
    assert "1 + 1 = 2" in table
