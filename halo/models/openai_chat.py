"""Providers `openai` and `deepseek`: Chat Completions through the real client.

At the provider itself, or at any server that speaks the protocol.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from halo.errors import ProviderError
from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.chat_stream import ChatStream
from halo.models.chat_wire import COMPATIBLE, DEEPSEEK, OPENAI, chat_body, renderer, unsent
from halo.models.failures import translate
from halo.models.openai_cache import marked_system
from halo.models.openai_endpoint import OpenAIEndpoint
from halo.models.provider_clients import READ_TIMEOUT, events_of
from halo.models.rendering import Rendering
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Capabilities
from halo.records.usage import Usage

_NAMES = {"openai": "OpenAI", "deepseek": "DeepSeek"}


class OpenAIChat(OpenAIEndpoint):
    """Speaks Chat Completions, in the dialect of the provider."""

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
        """Parameters as of `OpenAIEndpoint`."""
        super().__init__(
            provider, endpoint, key, capabilities=capabilities, minimum=minimum, read_timeout=read_timeout
        )
        self._dialect = DEEPSEEK if provider == "deepseek" else OPENAI if self._own else COMPATIBLE
        self._rendering = Rendering(renderer(self._dialect))

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        for name in unsent(request.binding, self._dialect):
            notice = f"{_NAMES[self.provider]} has no `{name}`; it is not sent"
            if self._is_new(notice):
                yield Notice(notice)
        rendered = self._rendering.of(request.messages)
        body = chat_body(request, rendered.messages, self._dialect)
        # The rendered history is in the digest by its own; what stands around it is named beside the body.
        around = {"system": request.prefix.system, "schema": request.response_schema}
        digest = rendered.digest_with({**body, **around})
        call = self._call(request)
        reply = ChatStream(call, digest, marks_thoughts=self._dialect.returns_thoughts)
        sent = self._cached(request, body)
        try:
            async with aclosing(events_of(self._open(), "/chat/completions", sent)) as chunks:
                async for chunk in chunks:
                    for event in reply.feed(chunk):
                        yield event
            finished = reply.finish(sent)
        except Exception as error:
            for lost in reply.lost():
                yield lost
            raise translate(error, call) from error
        notice = f"{self.provider} at {self.endpoint} says nothing of tokens: they are not counted"
        if finished.usage == Usage() and self._is_new(notice):
            yield Notice(notice)
        yield finished

    def _mark(self, request: Request, body: dict[str, Any]) -> None:
        system = {"role": "system", "content": marked_system(request, "text")}
        body["messages"] = [system, *body["messages"][1:]]

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`. DeepSeek does not count."""
        if self.provider == "deepseek":
            raise ProviderError(
                "deepseek has no endpoint that counts tokens",
                hint="leave --ask away: the count is an estimate then",
            )
        return await super().count(request)
