"""Tool calls as constrained text: what the model sees, what is read from it, and the real loop."""

import asyncio
import itertools
import json
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turning import MODEL, outcome, request, run_turn

from halo.errors import ProviderError, StartError
from halo.models.adapter import Finished, TextDelta
from halo.models.local import Local
from halo.models.schema_calls import SchemaCalls
from halo.models.spelt_calls import Spelling, reply_schema
from halo.records.messages import Image, Message, Text, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS, ToolSpec
from halo.records.usage import Usage

READ = LISTABLE_TOOLS["file_read"]


class Says:
    """An adapter that says given pieces."""

    provider = "says"

    def __init__(self, *pieces, stop="end"):
        self.pieces, self.stop, self.seen = pieces, stop, None

    async def stream(self, request):
        self.seen = request
        for piece in self.pieces:
            yield TextDelta(piece)
        yield Finished(Message("assistant", (Text("".join(self.pieces)),)), self.stop, Usage(), "m", "0" * 64)

    async def close(self):
        pass


def say(*pieces, stop="end", history=(), tools=(READ,)):
    inner = Says(*pieces, stop=stop)
    events = run_turn(SchemaCalls(inner), request(*(history or (user("?"),)), tools=tools))
    text, done = outcome(events)
    assert text == done.message.text
    return inner, events, done


def test_the_words_of_a_reply_are_streamed_decoded():
    _, events, done = say('{"re', 'ply": "Gr', "\\u00fc", "\\", 'n\\"x\\ud8', "3d\\ude00", '"}')
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Gr", "ü", '\n"x', "😀"]
    assert done.message.content == (Text('Grü\n"x😀'),)
    assert done.stop_reason == "end"


def test_a_call_is_read_and_not_shown():
    inner, events, done = say('{\n  "tool": "file_read", ', '"arguments": {"path": "a\\"b"}}')
    assert not [e for e in events if isinstance(e, TextDelta)]
    assert done.message.content == (ToolCall("call_1", "file_read", '{"path": "a\\"b"}'),)
    assert done.stop_reason == "tool_calls"
    assert inner.seen.prefix.tools == ()
    assert inner.seen.response_schema == reply_schema((READ,))


def test_ids_count_on_within_the_history():
    history = (
        user("?"),
        Message("assistant", (ToolCall("call_1", "file_read", "{}"),)),
        Message("user", (ToolResult("call_1", "x"),)),
    )
    _, _, done = say('{"tool": "file_read", "arguments": {}}', history=history)
    assert done.message.calls[0].id == "call_2"


@pytest.mark.parametrize(
    "raw",
    [
        '{"tool": "file_read"',
        '{"tool": "file_read", "arguments": {"path": "a',
        '{"tool": "file_read", "arguments": {}',
        "{",
    ],
)
def test_half_a_call_is_words_and_never_runs(raw):
    _, _, done = say(raw, stop="max_tokens")
    assert done.message.content == (Text(raw),)
    assert done.stop_reason == "max_tokens"


def test_half_an_answer_is_the_words_so_far():
    _, _, done = say('{"reply": "Once upon a', stop="max_tokens")
    assert done.message.content == (Text("Once upon a"),)
    assert done.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    "raw",
    [
        "Hello!", "", "{}", "[]", '{"reply": 5}', '{"reply": "a", "tool": "b"}', '{"tool": "file_read"}',
        '{"tool": "file_read", "arguments": []}', '{"tool": "file_read", "arguments": "{}"}', '{"tool": 1, "arguments": {}}',
        '{"reply": "a"} trailing', '{"tool": "file_read", "arguments": {',
    ],
)  # fmt: skip
def test_anything_else_is_an_error_that_shows_its_beginning(raw):
    with pytest.raises(ProviderError, match="neither an answer nor a tool call") as error:
        say(raw)
    assert raw[:50].replace('"', "") in str(error.value).replace('"', "")


def test_a_schema_and_tools_at_once_are_refused():
    with pytest.raises(StartError):
        run_turn(SchemaCalls(Says("x")), request(user("?"), tools=[READ], schema={"type": "object"}))


def test_without_tools_nothing_is_constrained():
    inner, _, done = say("Hello!", tools=())
    assert inner.seen.response_schema is None
    assert done.message.text == "Hello!"


def test_the_history_is_spelled_as_replies_are():
    history = (
        user("Read a.md"),
        Message("assistant", (ToolCall("c", "file_read", '{"path":"a.md"}'),)),
        Message("user", (ToolResult("c", "1\thi"),)),
        Message("assistant", (Text('It says "hi" → ü'),)),
        Message("assistant", (ToolCall("d", "file_read", "{bad"),)),
        Message("user", (ToolResult("d", "no", is_error=True), Text("go on"))),
    )
    said = [m.content for m in Spelling().of(history)]
    assert said[1] == (Text('{"tool": "file_read", "arguments": {"path": "a.md"}}'),)
    assert said[2] == (Text("Result of file_read:\n1\thi"),)
    assert said[3] == (Text('{"reply": "It says \\"hi\\" → ü"}'),)
    assert said[5] == (Text("Error from file_read:\nno"), Text("go on"))


def test_pictures_follow_the_result_that_they_belong_to():
    picture = Image("image/png", "AAAA")
    history = (
        user("Look."),
        Message("assistant", (ToolCall("c", "view_image", '{"path":"a.png"}'),)),
        Message("user", (ToolResult("c", "a.png", images=(picture,)), Text("and?"))),
    )
    assert Spelling().of(history)[2].content == (Text("Result of view_image:\na.png"), picture, Text("and?"))


@given(st.text(), st.lists(st.integers(0, 60), max_size=6), st.booleans())
def test_however_a_reply_is_cut_up_its_words_come_out(words, cuts, ascii_only):
    raw = json.dumps({"reply": words}, ensure_ascii=ascii_only)
    if not ascii_only and any("\ud800" <= c <= "\udfff" for c in words):
        return
    edges = [0, *sorted(min(c, len(raw)) for c in cuts), len(raw)]
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    _, _, done = say(*pieces)
    assert done.message.content == (Text(words),)


def test_the_loop_runs_on_the_real_model(shared_cache):
    """A call, its result, then an answer made of it, all on the real model.

    Two examples of the whole exchange are what makes a model of 135M parameters choose between calling and
    answering; without any it calls again and again.
    """
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    tool = ToolSpec("file_read", "Read a text file.", schema)
    static = "You read files for the user.\n"
    shots: tuple[Message, ...] = ()
    for n, (path, text) in enumerate((("notes.txt", "Buy milk."), ("plan.md", "Start on Monday.")), 1):
        shots += (
            user(f"Read the file {path}"),
            Message("assistant", (ToolCall(f"call_{n}", "file_read", json.dumps({"path": path})),)),
            Message("user", (ToolResult(f"call_{n}", text),)),
            Message("assistant", (Text(f"It says: {text}"),)),
        )
    ask = user("Read the file stations.md")
    turn = request(*shots, ask, system=static, static=static, tools=[tool], max_tokens=60)
    local = SchemaCalls(Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=2048, threads=1))

    async def call_then_answer():
        try:
            async with aclosing(local.stream(turn)) as events:
                _, called = outcome([e async for e in events])
            result = ToolResult(called.message.calls[0].id, "The upper station measures snow.")
            history = (*turn.history, called.message, Message("user", (result,)))
            async with aclosing(local.stream(msgspec.structs.replace(turn, history=history))) as events:
                return called, *outcome([e async for e in events])
        finally:
            await local.close()

    called, text, answered = asyncio.run(call_then_answer())
    assert called.stop_reason == "tool_calls"
    call = called.message.calls[0]
    assert (call.id, call.name, json.loads(call.arguments)) == (
        "call_3",
        "file_read",
        {"path": "stations.md"},
    )
    assert answered.stop_reason == "end"
    assert "snow" in text
    assert answered.usage.read > answered.usage.uncached


def test_a_history_that_grows_is_spelt_once():
    history = [user("q")]
    for n in range(200):
        history.append(Message("assistant", (ToolCall(f"call_{n + 1}", "file_read", "{}"),)))
        history.append(Message("user", (ToolResult(f"call_{n + 1}", "x"),)))
    inner = Says('{"tool": "file_read", "arguments": {}}')
    adapter = SchemaCalls(inner)
    run_turn(adapter, request(*history, tools=[READ]), close=False)
    before = inner.seen.history
    more = (Message("assistant", (Text("done"),)), user("and?"))
    _, done = outcome(run_turn(adapter, request(*history, *more, tools=[READ])))
    assert all(a is b for a, b in zip(before, inner.seen.history, strict=False))
    assert inner.seen.history[len(before) :] == Spelling().of(more)
    assert done.message.calls[0].id == "call_201"


@given(st.lists(st.lists(st.sampled_from(range(4)), max_size=5), min_size=1, max_size=5))
def test_a_spelling_that_has_seen_others_gives_what_a_new_one_gives(several):
    blocks = (
        user("a"),
        Message("assistant", (ToolCall("c", "file_read", "{}"),)),
        Message("user", (ToolResult("c", "r"),)),
        Message("assistant", (Text("b"),)),
    )
    kept = Spelling()
    for numbers in several:
        history = tuple(blocks[n] for n in numbers)
        new = Spelling()
        assert kept.of(history) == new.of(history)
        assert kept.calls == new.calls


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_a_reply_nested_beyond_reason_is_neither_words_nor_a_call(levels):
    nested = '{"tool": "file_read", "arguments": {"a": ' + "[" * levels + "]" * levels + "}}"
    with pytest.raises(ProviderError, match="neither an answer nor a tool call"):
        say(nested)
