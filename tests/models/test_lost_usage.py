"""Tokens that a provider had counted when an attempt failed: every adapter tells of them before the fault."""

import json

import pytest
from misbehaving import RESET, answer, fault
from test_retrying import (
    OVERLOADED,
    SLOW_DOWN,
    anthropic_adapter,
    chat,
    messages,
    openai_adapter,
    said,
    through,
)
from turning import request

from halo.models.adapter import Finished, Lost, Notice, Retrying, TextDelta
from halo.models.gemini import Gemini
from halo.models.openai_responses import OpenAIResponses
from halo.models.retrying import Patience
from halo.models.schema_calls import SchemaCalls
from halo.records.messages import user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage


def sse(*events):
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def chunk(words="", usage=None, stop=None):
    """A chunk of Chat Completions; some servers give figures with each."""
    choice = {"index": 0, "delta": {"content": words}, "finish_reason": stop}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}
    return {**head, "usage": usage} if usage else head


def counted(prompt, output, read=0):
    details = {"cached_tokens": read}
    return {"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details}


def response(kind, usage, **fields):
    """The last event of a response of Responses."""
    whole = {"id": "r", "model": "m-1", "status": kind, "usage": usage, "output": [], **fields}
    return {"type": f"response.{kind}", "sequence_number": 1, "response": whole}


def gemini(words, usage, stop=None, **fields):
    candidate = {"content": {"role": "model", "parts": [{"text": words}]}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {"candidates": [{**candidate, **fields}], "modelVersion": "m-1", "usageMetadata": usage}


def responses_adapter(url, **options):
    return OpenAIResponses(url + "/v1", "k", "m", **options)


def gemini_adapter(url, **options):
    return Gemini(url, "k", "m", cache="/nowhere", **options)


RESPONSES_USAGE = {
    "input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11,
}  # fmt: skip
GEMINI_USAGE = {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}

# What comes before the fault, and what had been counted by then.
FAILED = {
    "chat, cut after figures": (
        openai_adapter,
        answer(200, [*sse(chunk("Half", counted(9, 2, read=4))), RESET]),
        Lost(Usage(uncached=5, read=4, output=2), "m-1"),
    ),
    "chat, an error after figures": (
        openai_adapter,
        answer(200, sse(chunk("Half", counted(9, 1)), chunk(" an", counted(9, 2)), SLOW_DOWN)),
        Lost(Usage(uncached=9, output=2), "m-1"),
    ),
    "chat, figures and no end": (
        openai_adapter,
        answer(200, [*sse(chunk("Half"), chunk("", counted(9, 2))), b"data: [DONE]\n\n"]),
        Lost(Usage(uncached=9, output=2), "m-1"),
    ),
    "messages, cut in the middle": (
        anthropic_adapter,
        answer(200, [*messages("Half", done=False), RESET]),
        Lost(Usage(uncached=3, output=1), "m"),
    ),
    "messages, overloaded in the middle": (
        anthropic_adapter,
        answer(200, [*messages("Half", done=False), *sse(OVERLOADED)]),
        Lost(Usage(uncached=3, output=1), "m"),
    ),
    "messages, ended too early": (
        anthropic_adapter,
        answer(200, messages("Half", done=False)),
        Lost(Usage(uncached=3, output=1), "m"),
    ),
    "responses, failed": (
        responses_adapter,
        answer(200, sse(response("failed", RESPONSES_USAGE, error={"code": "server_error", "message": "x"}))),
        Lost(Usage(uncached=5, read=4, output=2), "m-1"),
    ),
    "gemini, cut in the middle": (
        gemini_adapter,
        answer(200, [*sse(gemini("Half", GEMINI_USAGE)), RESET]),
        Lost(Usage(uncached=5, read=4, output=2), "m-1"),
    ),
    "gemini, a slip of the model": (
        gemini_adapter,
        answer(200, sse(gemini("Half", GEMINI_USAGE, "MALFORMED_FUNCTION_CALL"))),
        Lost(Usage(uncached=5, read=4, output=2), "m-1"),
    ),
}


@pytest.mark.parametrize(("adapter_of", "failed", "lost"), FAILED.values(), ids=FAILED)
def test_what_was_counted_is_told_once_for_each_attempt_that_failed(adapter_of, failed, lost):
    whole = {
        openai_adapter: sse(chunk("Whole", counted(9, 3), "stop")),
        anthropic_adapter: messages("Whole"),
        responses_adapter: sse(
            response(
                "completed",
                RESPONSES_USAGE,
                output=[
                    {"type": "message", "id": "i", "content": [{"type": "output_text", "text": "Whole"}]}
                ],
            )
        ),
        gemini_adapter: sse(gemini("Whole", GEMINI_USAGE, "STOP")),
    }[adapter_of]
    events, error, _, server = through(adapter_of, [failed, failed, answer(200, whole)])
    assert error is None
    assert len(server.requests) == 3
    told = [event for event in events if not isinstance(event, (TextDelta, Notice))]
    assert [type(event) for event in told] == [Lost, Retrying, Lost, Retrying, Finished]
    assert told[0] == told[2] == lost
    assert said(events) == "Whole"
    # The reply's own figures are the reply's alone.
    assert told[-1].usage.output in (2, 3)


@pytest.mark.parametrize(("adapter_of", "failed", "lost"), FAILED.values(), ids=FAILED)
def test_a_call_that_is_given_up_tells_it_too(adapter_of, failed, lost):
    events, error, _, _ = through(adapter_of, [failed], patience=Patience(attempts=2))
    assert error is not None
    assert [e for e in events if isinstance(e, Lost)] == [lost, lost]
    assert events[-1] == lost


@pytest.mark.parametrize(
    ("adapter_of", "script"),
    [
        (openai_adapter, [fault(429, SLOW_DOWN), answer(200, chat("Whole"))]),
        (openai_adapter, [answer(200, [*chat("Half", done=False), RESET]), answer(200, chat("Whole"))]),
        (anthropic_adapter, [fault(529, OVERLOADED), answer(200, messages("Whole"))]),
    ],
)
def test_where_nothing_was_counted_nothing_is_told(adapter_of, script):
    events, error, _, _ = through(adapter_of, script)
    assert error is None
    assert not [e for e in events if isinstance(e, Lost)]


def test_a_reply_that_is_neither_words_nor_a_call_was_paid_for():
    """Tool mode `schema`: the reply is whole, and useless."""
    usage = counted(9, 2)
    asked = request(user("?"), tools=[LISTABLE_TOOLS["grep"]])
    script = [answer(200, sse(chunk("I would rather not", usage, "stop")))]
    events, error, _, _ = through(lambda url: _Asking(SchemaCalls(openai_adapter(url)), asked), script)
    assert "neither an answer nor a tool call" in error.message
    assert events == [Lost(Usage(uncached=9, output=2), "m-1")]


class _Asking:
    """Asks one thing, whatever it is asked."""

    def __init__(self, inner, asked):
        self._inner, self._asked, self.provider, self.close = inner, asked, inner.provider, inner.close

    def stream(self, _request):
        return self._inner.stream(self._asked)
