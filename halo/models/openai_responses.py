"""Provider `openai` with `api: responses`: Responses through the real client, without a state over there."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.failures import translate
from halo.models.openai_cache import marked_system
from halo.models.openai_endpoint import OpenAIEndpoint
from halo.models.provider_clients import READ_TIMEOUT, events_of
from halo.models.rendering import Rendering
from halo.models.responses_stream import ResponseStream
from halo.models.responses_wire import origin, renderer, responses_body
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Binding, Capabilities

_PROVIDER = "openai"


class OpenAIResponses(OpenAIEndpoint):
    """Speaks Responses with one model."""

    def __init__(
        self,
        endpoint: str,
        key: str,
        model: str,
        *,
        capabilities: Capabilities = UNKNOWN_CAPABILITIES,
        minimum: int | None = None,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        """Parameters as of `OpenAIEndpoint`."""
        render = renderer(_PROVIDER, endpoint, model)
        super().__init__(
            _PROVIDER,
            endpoint,
            key,
            capabilities=capabilities,
            minimum=minimum,
            read_timeout=read_timeout,
            counted=render,
        )
        self._rendering = Rendering(render)
        self._origin = origin(_PROVIDER, endpoint, model)

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        for name in _unsent(request.binding):
            notice = f"Responses has no `{name}`; it is not sent"
            if self._is_new(notice):
                yield Notice(notice)
        rendered = self._rendering.of(request.messages)
        body = responses_body(request, rendered.messages, thinks=self._capabilities.thinking is True)
        digest = rendered.digest_with(body, "input")
        call = self._call(request)
        reply = ResponseStream(call, digest, request.binding.max_tokens, self._origin)
        sent = self._cached(request, body)
        try:
            async with aclosing(events_of(self._open(), "/responses", sent)) as events:
                async for event in events:
                    for neutral in reply.feed(event):
                        yield neutral
            finished = reply.finish(sent)
        except Exception as error:
            for lost in reply.lost():
                yield lost
            raise translate(error, call) from error
        yield finished

    def _mark(self, request: Request, body: dict[str, Any]) -> None:
        # `instructions` is one text; only an item has a place for a mark.
        del body["instructions"]
        system = {"role": "developer", "content": marked_system(request, "input_text", lifetimes=True)}
        body["input"] = [system, *body["input"]]


def _unsent(binding: Binding) -> list[str]:
    """Name the options that this protocol has no word for."""
    names = [name for name in ("top_k", "seed") if getattr(binding, name) is not None]
    if binding.thinking is not None and binding.thinking.budget_tokens is not None:
        names.append("thinking.budget_tokens")
    return names
