"""Provider `openai`: Chat Completions through the real client, at OpenAI or any server that speaks it."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from halo.models.adapter import ModelEvent, Request, body_digest
from halo.models.chat_wire import ChatStream, calls_in, chat_body
from halo.models.count_requests import count_failed, read_count, responses_body
from halo.models.endpoints import is_loopback, is_own
from halo.models.failures import Call, translate

if TYPE_CHECKING:
    import openai

# Seconds. Prefill on a slow machine is silent for minutes; a connection is there at once or not at all.
_TIMEOUT = 600.0
_CONNECT_TIMEOUT = 10.0

# The client reads these headers from the environment; another endpoint has no business with them.
_OWN_HEADERS = ("OpenAI-Organization", "OpenAI-Project")


class OpenAIChat:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use."""

    provider = "openai"

    def __init__(self, endpoint: str, key: str) -> None:
        self.endpoint = endpoint
        self._key = key
        self._client: openai.AsyncOpenAI | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        body = chat_body(request, own=is_own(self.provider, self.endpoint))
        digest = body_digest(body)
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        reply = ChatStream(call, calls_before=calls_in(request.messages))
        try:
            async with aclosing(self._chunks(body)) as chunks:
                async for chunk in chunks:
                    for event in reply.feed(chunk):
                        yield event
        except Exception as error:
            raise translate(error, call) from error
        yield reply.finish(digest)

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`."""
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        try:
            answered = await self._open().responses.input_tokens.count(**responses_body(request))
            return read_count(answered, call)
        except Exception as error:
            raise count_failed(error, call) from error

    async def _chunks(self, body: dict[str, Any]) -> AsyncGenerator[object, None]:
        known = dict(body)
        extra = {name: known.pop(name) for name in ("top_k",) if name in known}
        stream = await self._open().chat.completions.create(**known, extra_body=extra or None)
        async with stream:
            async for chunk in stream:
                # `mode="json"` would rewrite what a server sent beside the protocol; plain values suffice.
                yield chunk.to_dict(mode="python", warnings=False)

    def _open(self) -> "openai.AsyncOpenAI":
        if self._client is None:
            import openai

            headers: dict[str, Any] = {}
            if not is_own(self.provider, self.endpoint):
                headers = dict.fromkeys(_OWN_HEADERS, openai.omit)
                headers |= without_custom_headers("OPENAI_CUSTOM_HEADERS", self._key, openai.omit)
            self._client = openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self.endpoint,
                max_retries=0,
                default_headers=headers,
                http_client=openai.DefaultAsyncHttpxClient(**http_options(self.endpoint)),
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def http_options(endpoint: str) -> dict[str, Any]:
    """Return the options of the HTTP client below a provider's client."""
    import httpx2

    loopback = is_loopback(endpoint)
    return {
        "timeout": httpx2.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
        "follow_redirects": False,
        # A proxy of the environment must not see what is meant for this machine.
        "trust_env": not loopback,
        # Servers on this machine (llama.cpp's) drop idle connections when they like; a new one is free.
        "limits": httpx2.Limits(max_keepalive_connections=0 if loopback else 20),
    }


def without_custom_headers(variable: str, key: str, omit: object) -> dict[str, object]:
    """Return headers that undo those which a client would take from an environment variable.

    `omit` is the client's mark for a header that is not sent; an Authorization is set right again.
    """
    lines = os.environ.get(variable, "").split("\n")
    names = [name.strip() for name, colon, _ in (line.partition(":") for line in lines) if colon]
    return {name: f"Bearer {key}" if name.lower() == "authorization" else omit for name in names}
