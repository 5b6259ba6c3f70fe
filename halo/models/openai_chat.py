"""Providers `openai` and `deepseek`: Chat Completions through the real client.

At the provider itself, or at any server that speaks the protocol.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from halo.errors import ProviderError
from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.chat_stream import ChatStream
from halo.models.chat_wire import COMPATIBLE, DEEPSEEK, OPENAI, chat_body, renderer, unsent
from halo.models.count_requests import count_failed, read_count, responses_count_body
from halo.models.endpoints import is_own
from halo.models.failures import Call, translate
from halo.models.openai_cache import cache_fields, marked_system, wants_mark
from halo.models.provider_clients import READ_TIMEOUT, events_of, openai_client
from halo.models.rendering import Rendering
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Capabilities
from halo.records.usage import Usage

if TYPE_CHECKING:
    import openai

_NAMES = {"openai": "OpenAI", "deepseek": "DeepSeek"}


class OpenAIChat:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use."""

    def __init__(
        self,
        endpoint: str,
        key: str,
        *,
        provider: str = "openai",
        capabilities: Capabilities = UNKNOWN_CAPABILITIES,
        minimum: int | None = None,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        """`minimum`: tokens of the shortest prefix that the model caches, None where that is not known.

        `read_timeout`: seconds that the other side may be silent.
        """
        self.provider = provider
        self.endpoint = endpoint
        self._key = key
        self._capabilities = capabilities
        self._minimum = minimum
        self._read_timeout = read_timeout
        self._own = is_own(provider, endpoint)
        self._dialect = DEEPSEEK if provider == "deepseek" else OPENAI if self._own else COMPATIBLE
        self._rendering = Rendering(renderer(self._dialect))
        self._client: openai.AsyncOpenAI | None = None
        self._noticed: set[str] = set()

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        for name in unsent(request.binding, self._dialect):
            notice = f"{_NAMES[self.provider]} has no `{name}`; it is not sent"
            if self._once(notice):
                yield Notice(notice)
        rendered = self._rendering.of(request.messages)
        body = chat_body(request, rendered.messages, self._dialect)
        # The rendered history is in the digest by its own; what stands around it is named beside the body.
        around = {"system": request.prefix.system, "schema": request.response_schema}
        digest = rendered.digest_with({**body, **around})
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        reply = ChatStream(call, digest, marks_thoughts=self._dialect.returns_thoughts)
        sent = self._cached(request, body)
        try:
            async with aclosing(events_of(self._open(), "/chat/completions", sent)) as chunks:
                async for chunk in chunks:
                    for event in reply.feed(chunk):
                        yield event
        except Exception as error:
            raise translate(error, call) from error
        finished = reply.finish(sent)
        notice = f"{self.provider} at {self.endpoint} says nothing of tokens: they are not counted"
        if finished.usage == Usage() and self._once(notice):
            yield Notice(notice)
        yield finished

    def _once(self, notice: str) -> bool:
        new = notice not in self._noticed
        self._noticed.add(notice)
        return new

    def _cached(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with what asks OpenAI to cache; other servers refuse what they do not know."""
        if self.provider != "openai" or not self._own:
            return body
        body = body | cache_fields(request, self._capabilities)
        if wants_mark(request, self._capabilities, self._minimum):
            system = {"role": "system", "content": marked_system(request, "text")}
            body["messages"] = [system, *body["messages"][1:]]
        return body

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`.

        Chat Completions has no endpoint that counts; OpenAI's Responses puts the same before the same models.
        """
        if self.provider == "deepseek":
            raise ProviderError(
                "deepseek has no endpoint that counts tokens",
                hint="leave --ask away: the count is an estimate then",
            )
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        try:
            body = responses_count_body(request)
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
