"""Failures that pass, failures that do not, and servers that misbehave, through the real clients."""

import asyncio
import json
import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import RESET, SILENCE, Misbehaving, answer, fault
from turning import outcome, request

from halo.errors import ProviderError
from halo.models import bounded
from halo.models.adapter import Finished, Lost, Retrying, TextDelta
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.bounded import Meter
from halo.models.failures import Call, from_status
from halo.models.openai_chat import OpenAIChat
from halo.models.retry_after import seconds_to_wait
from halo.models.retrying import Patience, RetryingAdapter
from halo.models.schema_calls import SchemaCalls
from halo.records.messages import ToolCall, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage
from halo.runner.calls import fresh_ids

KEY = "sk-very-secret-0123456789"
CALL = Call("openai", "https://api.openai.com/v1", "m", KEY)


def chat(*words, done=True):
    """A reply of Chat Completions as the bytes of its stream, an event each."""

    def chunk(delta, stop=None):
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    events = [chunk({"content": word}) for word in words]
    if done:
        events.append(chunk({}, "stop"))
    return [f"data: {json.dumps(e)}\n\n".encode() for e in events] + ([b"data: [DONE]\n\n"] if done else [])


def messages(*words, done=True):
    """A reply of Messages as the bytes of its stream, an event each."""
    usage = {"input_tokens": 3, "output_tokens": 1}
    start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    events = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in words
        ),
    ]
    if done:
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]


def openai_adapter(url, **options):
    return OpenAIChat(url + "/v1", KEY, **options)


def anthropic_adapter(url, **options):
    return AnthropicMessages(url, KEY, **options)


BOTH = pytest.mark.parametrize(
    ("adapter_of", "reply"),
    [
        pytest.param(openai_adapter, chat, id="openai"),
        pytest.param(anthropic_adapter, messages, id="anthropic"),
    ],
)


class Waits:
    """Stands in for the sleeping of a wrapper: notes what it was asked for and goes on at once."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


async def call(adapter, asked=None):
    """Run one call to its end; returns (events, error)."""
    events = []
    try:
        async with aclosing(adapter.stream(asked or request(user("?")))) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401  # those before an error count
    except ProviderError as error:
        return events, error
    return events, None


PATIENT = Patience()


def through(adapter_of, script, *, patience=PATIENT, chance=lambda: 1.0, **options):
    """Run one call against a script; returns (events, error, waits, server)."""

    async def go():
        waits = Waits()
        async with Misbehaving(*script) as server:
            adapter = RetryingAdapter(adapter_of(server.url, **options), patience, chance=chance, sleep=waits)
            try:
                events, error = await call(adapter)
                await server.quiet()
            finally:
                await adapter.close()
            return events, error, waits.seconds, server

    return asyncio.run(go())


def said(events):
    """The text that counts: what came after the last `Retrying`."""
    text = ""
    for event in events:
        text = (
            "" if isinstance(event, Retrying) else text + event.text if isinstance(event, TextDelta) else text
        )
    return text


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
SLOW_DOWN = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}


class TestWhatPassesIsTriedAgain:
    @BOTH
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
    def test_a_status_that_passes(self, adapter_of, reply, status):
        script = [fault(status, OVERLOADED), answer(200, reply("Hi"))]
        events, error, waits, server = through(adapter_of, script)
        assert error is None
        assert said(events) == "Hi"
        assert isinstance(events[0], Retrying)
        assert (events[0].seconds, events[0].attempt) == (1.0, 1)
        assert str(status) in events[0].reason
        assert waits == [1.0]
        assert len(server.requests) == 2

    @BOTH
    def test_the_same_request_goes_out_each_time(self, adapter_of, reply):
        script = [fault(503, {}), answer(200, reply("Half", done=False)), RESET, answer(200, reply("Whole"))]
        events, error, _, server = through(adapter_of, script)
        assert error is None
        assert said(events) == "Whole"
        assert len(server.requests) == 4
        assert all(body == server.requests[0] for body in server.requests)

    @BOTH
    def test_five_attempts_with_waits_that_double_and_then_the_providers_words(self, adapter_of, reply):
        events, error, waits, server = through(adapter_of, [fault(529, OVERLOADED)])
        assert len(server.requests) == 5
        assert waits == [1.0, 2.0, 4.0, 8.0]
        assert [e.attempt for e in events] == [1, 2, 3, 4]
        assert error.kind == "transient"
        assert "Overloaded" in str(error)
        assert "tried 5 times" in str(error)

    def test_waits_are_spread_over_the_whole_range_and_capped(self):
        _, _, waits, _ = through(openai_adapter, [fault(500, {})], chance=lambda: 0.25)
        assert waits == [0.25, 0.5, 1.0, 2.0]
        patience = Patience(attempts=9, most=10.0)
        _, _, waits, _ = through(openai_adapter, [fault(500, {})], patience=patience)
        assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0]

    @BOTH
    def test_a_connection_that_is_refused_until_the_server_is_up(self, adapter_of, reply):
        async def go():
            async with Misbehaving(answer(200, reply("Up"))) as first:
                port = int(first.url.rpartition(":")[2])
            up = Misbehaving(answer(200, reply("Up")), port=port)

            async def start(_):
                if not hasattr(up, "_server"):
                    await up.__aenter__()

            adapter = RetryingAdapter(adapter_of(up.url), sleep=start)
            try:
                return await call(adapter)
            finally:
                await adapter.close()
                await up.__aexit__()

        events, error = asyncio.run(go())
        assert error is None
        assert "cannot reach" in events[0].reason
        assert said(events) == "Up"

    def test_an_error_inside_an_open_stream_of_anthropic(self):
        event = f"event: error\ndata: {json.dumps(OVERLOADED)}\n\n".encode()
        script = [answer(200, [*messages("Half an", done=False), event]), answer(200, messages("Whole"))]
        events, error, _, _ = through(anthropic_adapter, script)
        assert error is None
        assert events[:2] == [TextDelta("Half an"), Lost(Usage(uncached=3, output=1), "m")]
        assert "Overloaded" in events[2].reason
        assert said(events) == "Whole"

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"message": "The server had an error", "type": "server_error", "code": None}, "transient"),
            ({"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}, "rate_limit"),
            ({"message": "bad", "type": "invalid_request_error", "code": None}, "request"),
            ({"message": "whatever", "code": 503}, "transient"),
            ({"message": "too much", "code": "context_length_exceeded"}, "overflow"),
        ],
    )
    def test_an_error_chunk_of_openai_is_what_it_says(self, body, kind):
        event = f"data: {json.dumps({'error': body})}\n\n".encode()
        _, error, waits, _ = through(openai_adapter, [answer(200, [*chat("Half", done=False), event])])
        assert error.kind == kind
        assert len(waits) == (4 if kind in ("transient", "rate_limit") else 0)

    def test_schema_calls_begin_anew_with_each_attempt(self):
        script = [answer(200, chat('{"reply": "Ha', done=False)), answer(200, chat('{"reply": "Hello"}'))]
        asked = request(user("?"), tools=[LISTABLE_TOOLS["file_read"]])

        async def go():
            async with Misbehaving(*script) as server:
                inner = SchemaCalls(openai_adapter(server.url))
                adapter = RetryingAdapter(inner, sleep=Waits())
                try:
                    return await call(adapter, asked)
                finally:
                    await adapter.close()

        events, error = asyncio.run(go())
        assert error is None
        assert said(events) == "Hello"


class TestWhatTheOtherSideAsksFor:
    @BOTH
    @pytest.mark.parametrize(
        ("headers", "seconds"), [({"retry_after": "7"}, 8.0), ({"retry_after_ms": "250"}, 1.25)]
    )
    def test_retry_after_is_honoured_with_some_jitter(self, adapter_of, reply, headers, seconds):
        script = [fault(429, SLOW_DOWN, **headers), answer(200, reply("Hi"))]
        events, error, waits, _ = through(adapter_of, script)
        assert error is None
        assert waits == [seconds]
        assert events[0].seconds == seconds

    @BOTH
    def test_a_wait_that_is_too_long_is_said_and_not_waited(self, adapter_of, reply):
        events, error, waits, server = through(adapter_of, [fault(429, SLOW_DOWN, retry_after="3600")])
        assert events == []
        assert waits == []
        assert len(server.requests) == 1
        assert (error.kind, error.retry_after) == ("rate_limit", 3600.0)
        assert "3,600 s" in str(error)

    def test_spellings(self):
        now = 1_800_000_000.0
        date = format_datetime(datetime.fromtimestamp(now, UTC) + timedelta(seconds=90), usegmt=True)
        assert seconds_to_wait({"retry-after": date}, None, now) == 90.0
        assert seconds_to_wait({"retry-after": date}, None, now + 1000) == 0.0
        assert seconds_to_wait({"retry-after": "1.5"}, None, now) == 1.5
        assert seconds_to_wait({"retry-after-ms": "10", "retry-after": "9"}, None, now) == 0.01
        delay = {"error": {"details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}
        assert seconds_to_wait({}, delay, now) == 34.5

    @given(st.text(max_size=40), st.recursive(st.none() | st.text() | st.integers(), st.lists))
    def test_nonsense_is_no_wait(self, text, details):
        found = seconds_to_wait({"retry-after": text}, {"error": {"details": details}}, 0.0)
        assert found is None or found >= 0

    @pytest.mark.parametrize("text", ["-5", "nan", "inf", "soon", "Fri, 99 Foo 2026", ""])
    def test_odd_values(self, text):
        assert seconds_to_wait({"retry-after": text}, None, 0.0) is None


class TestWhatIsFinal:
    @BOTH
    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (400, {"error": {"message": "messages.0: bad content", "type": "invalid_request_error"}}, "request"),
            (401, {"error": {"message": "no"}}, "auth"),
            (402, {"error": {"message": "Insufficient Balance"}}, "auth"),
            (403, {"error": {"message": "no"}}, "auth"),
            (404, {"error": {"message": "no such model"}}, "request"),
            (413, {"error": {"type": "request_too_large", "message": "Request exceeds"}}, "overflow"),
            (422, {"error": {"message": "no"}}, "request"),
            (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, "auth"),
            (400, {"error": {"message": "Your credit balance is too low to access the API"}}, "auth"),
        ],
    )  # fmt: skip
    def test_it_is_raised_at_once_in_the_providers_words(self, adapter_of, reply, status, body, kind):
        events, error, waits, server = through(adapter_of, [fault(status, body)])
        assert events == []
        assert waits == []
        assert len(server.requests) == 1
        assert error.kind == kind
        if status != 401:
            assert body["error"]["message"] in str(error)
        assert KEY not in str(error)

    def test_nothing_comes_twice_when_closing_fails_after_the_whole_reply(self):
        class Stumbling:
            provider = "p"
            opened = 0

            async def stream(self, asked):
                self.opened += 1
                yield Finished(user("x"), "end", None, "m", "")
                raise ProviderError("the connection broke", kind="transient")

        inner = Stumbling()
        events, error = asyncio.run(call(RetryingAdapter(inner, sleep=Waits())))
        assert (len(events), inner.opened) == (1, 1)
        assert "broke" in str(error)


# What providers and servers say today when a request does not fit.
OVERFLOWS = {
    "anthropic": (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 213462 tokens > 200000 maximum"}}),
    "anthropic, with the reply": (400, {"error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, decrease input length or `max_tokens` and try again"}}),
    "openai": (400, {"error": {"message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 128010 tokens.", "code": "context_length_exceeded"}}),
    "openai, responses": (400, {"error": {"message": "Your input exceeds the context window of this model. Please adjust your input and try again.", "type": "invalid_request_error"}}),
    "openai, tokens a minute": (429, {"error": {"message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 41873.", "code": "rate_limit_exceeded"}}),
    "deepseek": (400, {"error": {"message": "This model's maximum context length is 65536 tokens. However, you requested 66000 tokens."}}),
    "gemini": (400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."}}),
    "llama.cpp": (400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_ctx": 512}}),
    "vllm": (400, {"object": "error", "message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192.", "code": 400}),
    "vllm, with the reply": (400, {"error": {"message": "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens"}}),
    "ollama": (500, {"error": "the input length exceeds the context length"}),
    "ollama, cloud": (400, {"error": "prompt too long; exceeded max context length by 12 tokens"}),
    "lm studio": (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length."}),
    "groq": (400, {"error": {"message": "Please reduce the length of the messages or completion."}}),
    "xai": (400, {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    "z.ai": (400, {"error": {"message": "tokens in request more than max tokens allowed"}}),
}  # fmt: skip


class TestOverflow:
    @pytest.mark.parametrize(("status", "body"), OVERFLOWS.values(), ids=OVERFLOWS)
    def test_every_wording_is_an_overflow_and_never_tried_again(self, status, body):
        assert from_status(status, body, CALL).kind == "overflow"
        assert from_status(status, json.dumps(body).encode(), CALL).kind == "overflow"

    @pytest.mark.parametrize(
        "message",
        [
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "Invalid 'messages[0].content': string too long",
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000.",
            "image exceeds 5 MB maximum",
        ],
    )
    def test_other_limits_are_none(self, message):
        assert from_status(400, {"error": {"message": message}}, CALL).kind == "request"

    def test_words_of_the_user_in_a_code_field_count_only_as_codes(self):
        body = {"error": {"message": "unknown tool", "param": "context_length_exceeded"}}
        assert from_status(400, body, CALL).kind == "request"

    def test_a_key_that_gemini_does_not_take_is_no_bad_request(self):
        details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
        body = {
            "error": {
                "code": 400,
                "message": "API key not valid.",
                "status": "INVALID_ARGUMENT",
                "details": details,
            }
        }
        assert from_status(400, [body], CALL).kind == "auth"


class TestStreamsThatAreCut:
    @BOTH
    @pytest.mark.parametrize("framing", ["close", "length", "chunked"])
    def test_at_every_byte(self, adapter_of, reply, framing):
        """However much of a reply comes, the call ends with the whole reply or with an error that passes."""
        body = b"".join(reply("One ", "two"))
        # Where the last event that counts has ended, the reply is whole whatever else is missing.
        last = b'"finish_reason": "stop"' if reply is chat else b'"type": "message_stop"'
        whole = body.index(b"\n\n", body.index(last)) + 2

        async def go():
            async with Misbehaving(answer(200, b"")) as server:
                adapter = adapter_of(server.url)
                try:
                    for cut in range(len(body)):
                        server.script = [answer(200, body, framing=framing, cut=cut)]
                        events, error = await call(adapter)
                        text = "".join(e.text for e in events if isinstance(e, TextDelta))
                        assert "One two".startswith(text)
                        if error is None:
                            assert cut >= whole - 2, cut
                            assert outcome(events)[0] == "One two"
                        else:
                            assert error.kind == "transient", (cut, error)
                            assert not any(isinstance(e, Finished) for e in events)
                            assert cut < whole or framing != "close", cut
                    await server.quiet()
                finally:
                    await adapter.close()

        asyncio.run(go())

    @BOTH
    @pytest.mark.parametrize("at", ["before the head", "in the head", "in the body"])
    def test_the_connection_breaks(self, adapter_of, reply, at):
        broken = {
            "before the head": RESET,
            "in the head": answer(200, [RESET]),
            "in the body": answer(200, [*reply("Half", done=False), 0.05, RESET]),
        }[at]
        events, error, waits, _ = through(adapter_of, [broken, answer(200, reply("Whole"))])
        assert error is None
        assert said(events) == "Whole"
        assert len(waits) == 1


class TestMalformedAnswers:
    @BOTH
    @pytest.mark.parametrize(
        "event",
        [
            b"event: content_block_delta\ndata: {not json\n\n",
            b"event: content_block_delta\ndata: [1, 2]\n\n",
            b'event: content_block_delta\ndata: {"type": "content_block_delta", "choices": 7, "index": "x", "delta": 1}\n\n',
            b"event: message_start\ndata: \xff\xfe\n\n",
        ],
    )  # fmt: skip
    def test_an_event_that_cannot_be_read_is_told_once(self, adapter_of, reply, event):
        script = [answer(200, [*reply("Half", done=False), event, *reply("Whole")[-3:]])]
        _, error, waits, _ = through(adapter_of, script)
        assert error is not None
        assert error.kind == "protocol"
        assert waits == []
        assert KEY not in str(error)

    @BOTH
    def test_a_page_in_the_place_of_a_stream(self, adapter_of, reply):
        page = answer(200, b"<html><body>Welcome to the hotel network</body></html>", kind="text/html")
        _, error, _, _ = through(adapter_of, [page])
        assert error.kind in ("protocol", "transient")

    @BOTH
    def test_comments_pings_and_unknown_events_are_passed_over(self, adapter_of, reply):
        noise = [b": hello\n\n", b"event: ping\ndata: {}\n\n", b"\n\n"]
        if reply is messages:
            noise.append(b'event: novelty\ndata: {"type": "novelty"}\n\n')
        body = [part for event in reply("Hi") for part in (*noise, event)]
        events, error, _, _ = through(adapter_of, [answer(200, body)])
        assert error is None
        assert outcome(events)[0] == "Hi"

    def test_two_calls_with_one_id_stay_two_calls(self):
        def block(index):
            tool = {"type": "tool_use", "id": "toolu_1", "name": "grep", "input": {}}
            part = {"type": "input_json_delta", "partial_json": json.dumps({"pattern": str(index)})}
            return [
                {"type": "content_block_start", "index": index, "content_block": tool},
                {"type": "content_block_delta", "index": index, "delta": part},
            ]

        events = [e for index in (1, 2) for e in block(index)]
        body = [
            *messages("Looking", done=False),
            *(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events),
            *messages("", done=True)[-2:],
        ]
        events, error, _, _ = through(anthropic_adapter, [answer(200, body)])
        assert error is None
        calls = fresh_ids(outcome(events)[1].message, ()).calls
        assert [c.arguments for c in calls] == ['{"pattern": "1"}', '{"pattern": "2"}']
        assert len({c.id for c in calls}) == 2
        assert all(isinstance(c, ToolCall) for c in calls)


class TestSizes:
    @BOTH
    def test_an_event_without_end_is_refused_and_memory_stays_bounded(self, adapter_of, reply, monkeypatch):
        monkeypatch.setattr(bounded, "LONGEST_EVENT", 1024 * 1024)
        flood = [*reply("Half", done=False), b"data: ", *[b"x" * 65536] * 400]
        import tracemalloc

        tracemalloc.start()
        try:
            _, error, waits, _ = through(adapter_of, [answer(200, flood)])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert error.kind == "protocol"
        assert "more than 1,048,576 bytes" in str(error)
        assert waits == []
        assert peak < 40 * 1024 * 1024

    @BOTH
    def test_an_answer_without_end_is_refused(self, adapter_of, reply, monkeypatch):
        monkeypatch.setattr(bounded, "LONGEST_ANSWER", 200_000)
        body = reply(*["x" * 1000] * 400)
        _, error, _, _ = through(adapter_of, [answer(200, body)])
        assert error.kind == "protocol"
        assert "more than 200,000 bytes" in str(error)

    @BOTH
    def test_errors_are_bounded_as_well(self, adapter_of, reply, monkeypatch):
        monkeypatch.setattr(bounded, "LONGEST_EVENT", 100_000)
        _, error, _, _ = through(adapter_of, [answer(400, b"x" * 1_000_000)])
        assert error.kind == "protocol"

    @BOTH
    def test_a_compressed_answer_was_not_asked_for(self, adapter_of, reply):
        _, error, _, _ = through(adapter_of, [answer(200, b"".join(reply("Hi")), content_encoding="gzip")])
        assert error.kind == "protocol"
        assert "compressed" in str(error)

    @given(
        st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"data: x\n\n", b"bb\r\n\r\n"]), max_size=30),
        st.data(),
    )
    def test_the_meter_counts_the_same_however_bytes_are_cut(self, parts, data):
        stream = b"".join(parts)
        whole, cut = Meter(), Meter()
        whole.add(stream)
        position = 0
        while position < len(stream):
            size = data.draw(st.integers(1, len(stream) - position))
            cut.add(stream[position : position + size])
            position += size
        assert (cut.total, cut.event) == (whole.total, whole.event)
        assert whole.event <= whole.total == len(stream)


class TestSlowness:
    @BOTH
    def test_silence_is_bounded_by_the_read_timeout(self, adapter_of, reply):
        script = [answer(200, [*reply("Half", done=False), SILENCE]), answer(200, reply("Whole"))]
        began = time.monotonic()
        events, error, _, _ = through(adapter_of, script, read_timeout=0.2)
        assert error is None
        assert said(events) == "Whole"
        assert "in time" in next(e.reason for e in events if isinstance(e, Retrying))
        assert 0.2 <= time.monotonic() - began < 3

    @BOTH
    def test_slow_bytes_arrive(self, adapter_of, reply):
        body = b"".join(reply("Slow"))
        steps = [step for i in range(0, len(body), 40) for step in (body[i : i + 40], 0.01)]
        events, error, _, _ = through(adapter_of, [answer(200, steps)], read_timeout=0.5)
        assert error is None
        assert outcome(events)[0] == "Slow"


class TestCancelling:
    """It is over in a fraction of a second, and nothing is left: no task, no socket."""

    @BOTH
    @pytest.mark.parametrize("when", ["before the head", "slow bytes", "the wait before the next attempt"])
    def test_at_any_time(self, adapter_of, reply, when):
        drip = [step for byte in reply("x" * 200) for step in (byte[:5], 0.02)]
        script = {
            "before the head": SILENCE,
            "slow bytes": answer(200, [*reply("Half", done=False), *drip, SILENCE]),
            "the wait before the next attempt": fault(503, {}, retry_after="60"),
        }[when]

        async def go():
            async with Misbehaving(script) as server:
                adapter = RetryingAdapter(adapter_of(server.url))
                task = asyncio.create_task(call(adapter))
                await asyncio.sleep(0.4)
                assert not task.done()
                began = time.monotonic()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                took = time.monotonic() - began
                await server.quiet(1.0)
                await adapter.close()
                assert took < 0.5
                assert len(server.requests) == 1
            return {t for t in asyncio.all_tasks() if t is not asyncio.current_task()}

        assert asyncio.run(go()) == set()

    @BOTH
    def test_a_caller_that_stops_listening_ends_the_call(self, adapter_of, reply):
        async def go():
            async with Misbehaving(answer(200, [*reply("Half", done=False), SILENCE])) as server:
                adapter = RetryingAdapter(adapter_of(server.url))
                async with aclosing(adapter.stream(request(user("?")))) as events:
                    assert await anext(events) == TextDelta("Half")
                await server.quiet(1.0)
                await adapter.close()

        asyncio.run(go())
