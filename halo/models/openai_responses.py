"""Provider `openai` with `api: responses`: Responses through the real client, without a state over there."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.count_requests import count_failed, read_count, responses_count_body
from halo.models.endpoints import is_own
from halo.models.failures import Call, translate
from halo.models.openai_cache import cache_fields, marked_system, wants_mark
from halo.models.provider_clients import READ_TIMEOUT, events_of, openai_client
from halo.models.rendering import Render, Rendering
from halo.models.responses_stream import ResponseStream
from halo.models.responses_wire import origin, renderer, responses_body
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Binding, Capabilities

if TYPE_CHECKING:
    import openai


class OpenAIResponses:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use."""

    provider = "openai"

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
        """Parameters as of `OpenAIChat`."""
        self.endpoint = endpoint
        self._key = key
        self._capabilities = capabilities
        self._minimum = minimum
        self._read_timeout = read_timeout
        self._own = is_own(self.provider, endpoint)
        self._render: Render = renderer(self.provider, endpoint, model)
        self._rendering = Rendering(self._render)
        self._origin = origin(self.provider, endpoint, model)
        self._client: openai.AsyncOpenAI | None = None
        self._noticed: set[str] = set()

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        for name in _unsent(request.binding):
            if name not in self._noticed:
                self._noticed.add(name)
                yield Notice(f"Responses has no `{name}`; it is not sent")
        rendered = self._rendering.of(request.messages)
        body = responses_body(request, rendered.messages, thinks=self._capabilities.thinking is True)
        digest = rendered.digest_with(body, "input")
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        reply = ResponseStream(call, digest, request.binding.max_tokens, self._origin)
        sent = self._cached(request, body)
        try:
            async with aclosing(events_of(self._open(), "/responses", sent)) as events:
                async for event in events:
                    for neutral in reply.feed(event):
                        yield neutral
        except Exception as error:
            raise translate(error, call) from error
        yield reply.finish(sent)

    def _cached(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with what asks OpenAI to cache; other servers refuse what they do not know."""
        if not self._own:
            return body
        body = body | cache_fields(request, self._capabilities)
        if wants_mark(request, self._capabilities, self._minimum):
            # `instructions` is one text; only an item has a place for a mark.
            del body["instructions"]
            system = {"role": "developer", "content": marked_system(request, "input_text", lifetimes=True)}
            body["input"] = [system, *body["input"]]
        return body

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`."""
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        try:
            body = responses_count_body(request, self._render)
            return read_count(await self._open().responses.input_tokens.count(**body), call)
        except Exception as error:
            raise count_failed(error, call) from error

    def _open(self) -> "openai.AsyncOpenAI":
        if self._client is None:
            self._client = openai_client(self.provider, self.endpoint, self._key, self._read_timeout)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _unsent(binding: Binding) -> list[str]:
    """Name the options that this protocol has no word for."""
    names = [name for name in ("top_k", "seed") if getattr(binding, name) is not None]
    if binding.thinking is not None and binding.thinking.budget_tokens is not None:
        names.append("thinking.budget_tokens")
    return names
