"""A server at an address: streamable HTTP, with a bound on what it answers."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from halo.tools.mcp.launch import Launch
from halo.tools.mcp.programs import LONGEST_MESSAGE
from halo.tools.tls import tls_for
from halo.workspace.mcp.servers import is_loopback_address

if TYPE_CHECKING:
    import httpx2

_LARGEST_ANSWER = 64 << 20  # bytes of one response; a stream of events is one
_CONNECT_SECONDS = 15.0


@asynccontextmanager
async def streams_at(start: Launch) -> AsyncGenerator[tuple[Any, Any], None]:
    """Give the two streams of messages that the SDK's session takes.

    Headers go to the address alone: the SDK follows no redirect to elsewhere. A server of this machine is
    never spoken to through a proxy.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(
        headers={**start.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=start.server.call_seconds),
        trust_env=not is_loopback_address(start.server.url),
        verify=await tls_for(start.server.url),
        event_hooks={"response": [_bound]},
    ) as client:
        url = start.server.url
        async with streamable_http_client(
            url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as streams:
            yield streams


async def _bound(response: "httpx2.Response") -> None:
    """Refuse an answer that unpacks to more than it is, and stop reading one that does not end."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("a packed answer, which nobody asked for", request=response.request)
    response.stream = _bounded(response)


def _bounded(response: "httpx2.Response") -> "httpx2.AsyncByteStream":
    import httpx2

    inner: Any = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for chunk in inner:
                read += len(chunk)
                if read > _LARGEST_ANSWER:
                    raise httpx2.ReadError(f"an answer of more than {_LARGEST_ANSWER >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    return Bounded()
