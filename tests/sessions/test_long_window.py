"""What fills the window: by segment, tool, few-shots and class of message; from the manifest, never from text."""

import json

import pytest
from histories import PICTURE, histories, says, skill, step
from hypothesis import given
from making import agent, compiled
from test_history import CREATED, lines

from halo.records.artifacts import Artifact
from halo.records.events import (
    ContextShortened,
    Edit,
    MessageAdded,
    ToolResultAdded,
    TurnStarted,
    UsageReported,
)
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.usage import Usage
from halo.runner.context.notes import summary_message
from halo.runner.record import AROUND, message_tokens
from halo.sessions.history import fold
from halo.sessions.long.window import PROMPT, window_of
from halo.sessions.long.window_text import window_lines

FILES = {
    ".halo/USER.md": "Mira.\n\n# Project Context\n\nA heading that others look for.\n",
    ".halo/agents/a/agent.yaml": agent(
        name="Ada", tools=["grep", "file_read"], skills=["s"], context={"max_tokens": 20_000}
    ),
    ".halo/agents/a/AGENT.md": "You are a. " * 50 + "\n\n# Project Context\n",
    ".halo/agents/a/fewshots/a.yaml": "- user: Hi\n- assistant: Hello\n",
    ".halo/skills/s/SKILL.md": "---\nname: S\ndescription: d\n---\nGreet.\n",
}


@pytest.fixture(scope="module")
def artifact():
    made = compiled(FILES)
    return Artifact("a" * 40, made.prompt, made.manifest)


def conversation(artifact, messages, *more):
    log = [CREATED, TurnStarted(artifact.id, "f")]
    tools = {}
    for message in messages:
        results = [block for block in message.content if isinstance(block, ToolResult)]
        tools.update((call.id, call.name) for call in message.calls)
        log += [ToolResultAdded(r, tools.get(r.call_id, "")) for r in results] or [MessageAdded(message)]
    return fold(lines(*log, *more))


def found(window, kind):
    return {part.name: part.tokens for part in window.parts if part.kind == kind}


def test_the_prompt_is_what_the_manifest_says(artifact):
    window = window_of(artifact, conversation(artifact, ()))
    manifest = artifact.manifest
    assert found(window, "segment") == {s.id: s.tokens for s in manifest.segments}
    assert list(found(window, "tool")) == [tool.name for tool in manifest.tools]
    (shots,) = [part for part in window.parts if part.kind == "few_shots"]
    assert shots.count == 2
    assert shots.tokens == sum(map(message_tokens, manifest.few_shots))
    assert all(part.pinned == part.tokens for part in window.parts)
    assert window.messages == 0


def test_each_class_of_messages_has_its_row(artifact):
    thought = Thinking("hm " * 30, ProviderData(artifact.runtime.binding.provider, {}))
    loaded = Message("assistant", (ToolCall("k", "activate_skill", '{"skill_id": "s"}'),))
    messages = (
        summary_message("They spoke."),
        user("look " * 40),
        Message("assistant", (thought, Text("I look."), ToolCall("c", "grep", '{"pattern": "x"}'))),
        Message("user", (ToolResult("c", "found " * 200, images=(PICTURE,)),)),
        loaded,
        Message("user", (ToolResult("k", "Greet. " * 40),)),
        user('<skill id="s" note="n">\nGreet.\n</skill>'),
        says("Done."),
        Message("user", (Image("image/png", "iVBORw0KGgo="), Text("this?"))),
    )
    window = window_of(artifact, conversation(artifact, messages))
    rows = {(p.kind, p.name) for p in window.parts if p.kind not in PROMPT}
    assert rows == {
        ("summaries", ""),
        ("user", ""),
        ("assistant", ""),
        ("thinking", ""),
        ("tool_calls", "grep"),
        ("tool_results", "grep"),
        ("images", "grep"),
        ("images", ""),
        ("skills", "s"),
        ("skills", "invoked by the user"),
    }
    assert found(window, "images")["grep"] == 1_600
    assert found(window, "thinking")[""] == 25 + AROUND


@given(histories())
def test_the_rows_add_up_to_the_estimate_of_the_history(artifact, messages):
    window = window_of(artifact, conversation(artifact, messages))
    said = [part for part in window.parts if part.kind not in PROMPT]
    assert sum(part.tokens for part in said) == sum(map(message_tokens, messages))
    assert window.used == sum(part.tokens for part in window.parts) == window.filled
    assert window.free == max(0, window.window - window.used)
    assert all(0 <= part.prunable <= part.tokens for part in said)
    assert all(0 <= part.pinned <= part.tokens for part in said)
    assert abs(sum(part.share for part in window.parts) - window.used / window.window) < 1e-9
    assert window.pinned + window.prunable <= window.used


def test_what_can_go_is_what_pruning_would_take_out_and_what_stays_is_what_is_worked_on(artifact):
    old = [m for n in range(9) for m in step(**{f"c{n}": "x" * 3_000})]
    window = window_of(
        artifact, conversation(artifact, (user("go"), *old, says("ok"), *skill("k"), user("and " * 9)))
    )
    results = next(p for p in window.parts if p.kind == "tool_results")
    assert results.name == "grep"
    assert results.prunable > 3 * 800  # five of nine stay
    assert next(p for p in window.parts if p.kind == "skills").prunable == 0
    asked = next(p for p in window.parts if p.kind == "user")
    assert asked.pinned == message_tokens(user("and " * 9))
    assert results.pinned == 0


def test_what_the_provider_has_counted_is_believed(artifact):
    used = UsageReported("openai", "m", Usage(uncached=5_000, output=100))
    window = window_of(
        artifact, conversation(artifact, (user("go"), says("ok")), used, MessageAdded(user("and?")))
    )
    assert window.counted == 5_100
    assert window.filled == 5_100 + message_tokens(user("and?"))
    assert window.free == window.window - window.filled
    assert window.used < window.filled


def test_a_shortened_history_is_looked_at_as_it_is_sent(artifact):
    gist = ContextShortened("summarise", (Edit(0, 2, (summary_message("gist"),)),), messages_before=2)
    window = window_of(artifact, conversation(artifact, (user("go " * 900), says("ok")), gist))
    assert list(found(window, "summaries")) == [""]
    assert found(window, "user") == {}


def test_lines_for_people_name_the_sums_and_with_detail_every_part(artifact):
    history = conversation(artifact, (user("go"), *step(c="x" * 3_000), says("ok")))
    window = window_of(artifact, history)
    short = "\n".join(window_lines(window, detail=False))
    whole = "\n".join(window_lines(window, detail=True))
    for text in (short, whole):
        assert f"{window.filled:,} of 20,000 tokens are filled" in text
        assert f"prompt ({len(found(window, 'segment'))})" in text
        assert "results of tools" in text
        assert f"stays whatever happens: {window.pinned:,} tokens" in text
    assert "AGENT.md" in whole
    assert "AGENT.md" not in short
    for segment in artifact.manifest.segments:
        assert f"  {segment.id}" in whole


def test_names_from_a_log_do_not_steer_a_terminal(artifact):
    bad = Message("assistant", (ToolCall("c", "grep\x1b[2J", "{}"),))
    history = conversation(artifact, (user("go"), bad, Message("user", (ToolResult("c", "x"),))))
    assert "\x1b" not in "\n".join(window_lines(window_of(artifact, history), detail=True))


def test_the_values_are_plain_json(artifact):
    from halo.files.canonical import readable_json

    window = json.loads(readable_json(window_of(artifact, conversation(artifact, (user("go"),)))))
    assert window["format"] == 1
    assert {part["kind"] for part in window["parts"]} == {"segment", "tool", "few_shots", "user"}
