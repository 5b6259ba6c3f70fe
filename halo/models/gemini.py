"""Provider `gemini`: the Gemini API through the real client, at Google or any server that speaks it."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from halo.errors import ProviderError
from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.failures import Call, malformed
from halo.models.gemini_cache import Index, naming
from halo.models.gemini_client import GeminiClient, failed, status_of
from halo.models.gemini_keeper import Held, Keeper, Prefixes
from halo.models.gemini_stream import GeminiStream
from halo.models.gemini_wire import PROVIDER, ContentRenderer, gemini_body
from halo.models.provider_clients import READ_TIMEOUT
from halo.models.rendering import Rendering

Json = dict[str, Any]

# What a request that names a cached content may be answered because of that.
_DOUBTFUL = frozenset({400, 403, 404})


class Gemini:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use."""

    provider = PROVIDER

    def __init__(
        self,
        endpoint: str,
        key: str,
        model: str,
        *,
        cache: str,
        minimum: int | None = None,
        now: Callable[[], float] = time.time,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        """`minimum`: tokens of the shortest prefix that the model takes as a cached content.

        None where it takes none, or nobody knows. `cache` is the folder for what is derived, `now` returns
        seconds since the epoch.
        """
        self.endpoint = endpoint
        self._client = GeminiClient(endpoint, key, read_timeout)
        self._index, self._prefixes = Index(cache), Prefixes(endpoint, key)
        self._minimum, self._now = minimum, now
        self._rendering = Rendering(ContentRenderer(model))

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`.

        One that names a cached content and is refused is made again: with a new one, then without any.
        """
        rendered = self._rendering.of(request.messages)
        body = gemini_body(request, rendered.messages)
        digest = rendered.digest_with(body, "contents")
        call = self._call(request)
        keeper = Keeper(self._client, self._index, self._prefixes, self._minimum, self._now)
        held = await keeper.find(request, body)
        while True:
            for notice in _said(keeper):
                yield notice
            reply = GeminiStream(call, digest)
            begun = False
            try:
                async with aclosing(self._client.chunks(_sent(request, body, held))) as chunks:
                    async for chunk in chunks:
                        begun = True
                        for event in reply.feed(chunk):
                            yield event
            except Exception as error:
                if held is None or begun or status_of(error) not in _DOUBTFUL:
                    for lost in reply.lost():
                        yield lost
                    raise failed(error, call) from error
                held = await keeper.again(request, held, error)
            else:
                break
        keeper.settle()
        for notice in _said(keeper):
            yield notice
        written, promised = (held.written, held.tokens) if held is not None else (0, 0)
        try:
            events = reply.finish(body, written=written, promised=promised)
        except ProviderError:
            for lost in reply.lost():
                yield lost
            raise
        for event in events:
            yield event

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`."""
        contents = Rendering(ContentRenderer(request.binding.model)).of(request.messages).messages
        body = gemini_body(request, contents)
        call = self._call(request)
        try:
            number = await self._client.count(body)
        except Exception as error:
            raise failed(error, call) from error
        if not isinstance(number, int) or number < 0:
            raise malformed(call, f"totalTokens is {number!r}")
        return number

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _call(self, request: Request) -> Call:
        return Call(self.provider, self.endpoint, request.binding.model, self._client.key)


def _said(keeper: Keeper) -> Iterator[Notice]:
    said, keeper.said = keeper.said, []
    return map(Notice, said)


def _sent(request: Request, body: Json, held: Held | None) -> Json:
    if held is None:
        return body
    return naming(body, request.prefix, held.static.contents, held.name)
