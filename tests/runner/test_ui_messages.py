"""The UI message stream, read by the AI SDK itself; and the lines for programs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.models.adapter import Notice, Retrying, TextDelta, ThinkingDelta
from halo.records.events import (
    ContextShortened,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    UsageReported,
)
from halo.records.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from halo.records.usage import Usage
from halo.runner.event_lines import event_line, line
from halo.runner.ui_messages import DONE, HEADERS, UiMessage, encode

HERE = Path(__file__).parent / "ai_sdk"

CALL = ToolCall("c1", "file_read", '{"path": "a.md"}')
LOOK = ToolCall("c2", "view_image", '{"path": "a.png"}')
TURN = (
    ThinkingDelta("Let me "),
    ThinkingDelta("look."),
    TextDelta("Reading "),
    TextDelta("it."),
    MessageAdded(Message("assistant", (Thinking("Let me look."), Text("Reading it."), CALL, LOOK))),
    UsageReported("openai", "m", Usage(uncached=10, output=5)),
    ToolResultAdded(ToolResult("c1", "no such file", is_error=True), "file_read", 3),
    ToolResultAdded(ToolResult("c2", "a picture", images=(Image("image/png", "AAAA"),)), "view_image", 4),
    Notice("a notice"),
    TextDelta("It is a wall."),
    MessageAdded(Message("assistant", (Text("It is a wall."),))),
    UsageReported("openai", "m", Usage(uncached=2, read=15, output=5)),
    TurnEnded("done"),
)


@pytest.fixture(scope="session")
def ai_sdk():
    """The npm package `ai`, put once into a cache that outlives the run."""
    if not shutil.which("node") or not shutil.which("npm"):
        assert not os.environ.get("CI"), "node and npm are missing"
        pytest.skip("node and npm are not installed")
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]["ai"]
    base = os.environ.get("HALO_TEST_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "halo-tests")
    folder = Path(base) / f"ai-sdk-{wanted}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", folder)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        (folder / "done").touch()
    return folder


def chunks_of(events, message_id="s1-1"):
    message = UiMessage(message_id)
    return [*message.start(), *(c for event in events for c in message.feed(event))]


def read(ai_sdk, chunks):
    """Return what the AI SDK's client makes of the chunks: (message, problems)."""
    stream = b"".join(map(encode, chunks)) + DONE
    done = subprocess.run(
        ["node", str(HERE / "read.mjs")],
        input=stream, capture_output=True, check=True, timeout=60,
        env={**os.environ, "AI_SDK": str(ai_sdk)},
    )  # fmt: skip
    made = json.loads(done.stdout)
    return made["message"], made["problems"]


def test_a_client_of_the_ai_sdk_reads_a_turn(ai_sdk):
    message, problems = read(ai_sdk, chunks_of(TURN))
    assert problems == []
    assert message["id"] == "s1-1"
    assert message["role"] == "assistant"
    assert message["metadata"] == {
        "reason": "done",
        "usage": {"uncached": 12, "read": 15, "output": 10},
    }
    shown = [(p["type"], p.get("text") or p.get("state")) for p in message["parts"]]
    assert shown == [
        ("step-start", None),
        ("reasoning", "Let me look."),
        ("text", "Reading it."),
        ("dynamic-tool", "output-error"),
        ("dynamic-tool", "output-available"),
        ("step-start", None),
        ("text", "It is a wall."),
    ]
    failed, looked = (p for p in message["parts"] if p["type"] == "dynamic-tool")
    assert (failed["toolName"], failed["input"], failed["errorText"]) == (
        "file_read", {"path": "a.md"}, "no such file",
    )  # fmt: skip
    assert looked["output"] == {"text": "a picture", "images": [{"mediaType": "image/png", "data": "AAAA"}]}


@pytest.mark.parametrize("arguments", ['{"pattern": ', "[" * 100_000])
def test_arguments_that_are_no_json_are_shown_as_they_are(ai_sdk, arguments):
    broken = ToolCall("c1", "grep", arguments)
    message, problems = read(
        ai_sdk,
        chunks_of(
            [
                MessageAdded(Message("assistant", (broken,))),
                ToolResultAdded(ToolResult("c1", "not valid JSON", is_error=True), "grep"),
                TurnEnded("done"),
            ]
        ),
    )
    assert problems == []
    (part,) = (p for p in message["parts"] if p["type"] == "dynamic-tool")
    assert part["state"] == "output-error"


def test_an_error_reaches_the_client_as_one(ai_sdk):
    message = UiMessage("m")
    chunks = [*message.start(), *message.feed(TextDelta("Half")), *message.fail("the provider broke off")]
    read_message, problems = read(ai_sdk, chunks)
    assert [p["text"] for p in read_message["parts"] if p["type"] == "text"] == ["Half"]
    assert any("the provider broke off" in p for p in problems)


def test_an_interrupted_turn_is_aborted():
    assert chunks_of([TextDelta("Half"), TurnEnded("interrupted")])[-1] == {"type": "abort"}


def test_what_the_protocol_has_no_part_for_passes_as_data(ai_sdk):
    events = [
        ContextShortened("prune", (), 900, 400),
        Repaired("storm", "c1", "grep", note="the same call again"),
        TextDelta("a"),
        Retrying("overloaded", 1.5, 1),
        TextDelta("b"),
        MessageAdded(Message("assistant", (Text("b"),))),
        TurnEnded("tokens"),
    ]
    chunks = chunks_of(events)
    assert [c["type"] for c in chunks if c["type"].startswith("data-")] == [
        "data-context", "data-repair", "data-retry",
    ]  # fmt: skip
    message, problems = read(ai_sdk, chunks)
    assert problems == []
    assert [p["text"] for p in message["parts"] if p["type"] == "text"] == ["a", "b"]
    assert message["metadata"]["reason"] == "tokens"


EVENTS = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=5)),
    st.builds(ThinkingDelta, st.text(min_size=1, max_size=5)),
    st.just(MessageAdded(Message("assistant", (CALL,)))),
    st.just(MessageAdded(Message("assistant", (Text("x"),)))),
    st.just(ToolResultAdded(ToolResult("c1", "ok"), "file_read")),
    st.just(Retrying("busy", 1.0, 1)),
    st.just(Notice("n")),
)


@given(st.lists(EVENTS, max_size=12), st.sampled_from(["done", "interrupted", "steps", "error"]))
def test_parts_and_steps_are_always_closed(events, reason):
    """Whatever a turn does: every part that starts ends, inside its step; one end at the end."""
    opened, step = set(), False
    chunks = chunks_of([*events, TurnEnded(reason)])
    for chunk in chunks:
        kind, _, what = chunk["type"].rpartition("-")
        if chunk["type"] == "start-step":
            assert not step
            step = True
        elif chunk["type"] == "finish-step":
            assert step
            assert not opened
            step = False
        elif kind in ("text", "reasoning"):
            assert step
            if what == "start":
                assert chunk["id"] not in opened
                opened.add(chunk["id"])
            elif what == "delta":
                assert chunk["id"] in opened
            else:
                opened.remove(chunk["id"])
    assert not opened
    assert not step
    assert [c["type"] for c in chunks if c["type"] in ("finish", "abort")] == [chunks[-1]["type"]]


def test_the_headers_say_which_protocol_it_is():
    assert HEADERS["x-vercel-ai-ui-message-stream"] == "v1"
    assert HEADERS["content-type"] == "text/event-stream"


def test_every_event_is_one_line_of_json():
    lines = [event_line(e) for e in (*TURN, Retrying("busy", 0.5, 2), ContextShortened("prune", ()))]
    decoded = [json.loads(one) for one in lines]
    assert all(one.endswith(b"\n") and one.count(b"\n") == 1 for one in lines)
    assert [d["type"] for d in decoded] == [
        "thinking", "thinking", "text", "text", "message", "usage", "tool.result", "tool.result", "notice",
        "text", "message", "usage", "turn.ended", "retry", "context.shortened",
    ]  # fmt: skip
    assert decoded[0] == {"type": "thinking", "text": "Let me "}
    assert decoded[4]["message"]["content"][2] == {
        "type": "tool_call", "id": "c1", "name": "file_read", "arguments": '{"path": "a.md"}',
    }  # fmt: skip
    assert json.loads(line("turn", session="s")) == {"type": "turn", "session": "s"}
