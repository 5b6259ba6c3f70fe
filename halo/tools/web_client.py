"""One GET request to an address that was checked before, and as much of the answer as anybody needs.

The URL that the client is given holds the address, while Host and the name that TLS checks stay the page's.
So nothing is looked up here.
"""

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from halo.tools.base import ToolFailure, brief
from halo.tools.tls import tls_for

if TYPE_CHECKING:
    import httpx2

BODY = 50 * 1024  # decoded bytes that the model is given

_RAW = 4 * BODY  # bytes that are taken to get them, for what unpacks to nothing
_CONNECT_SECONDS = 5.0  # for one address

_MOVED = frozenset({301, 302, 303, 307, 308})


class Reply(NamedTuple):
    """An answer; `location` is where a redirect leads, and such an answer has no body.

    `whole`: nothing of the body was left out.
    """

    status: int
    content_type: str
    length: str
    location: str
    body: bytes
    whole: bool


async def ask(url: "httpx2.URL", headers: Mapping[str, str], addresses: list[str]) -> Reply:
    """Ask the first of the addresses that takes the connection."""
    import httpx2

    *others, last = addresses
    for address in others:
        try:
            return await _ask_one(url, headers, address)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
        except httpx2.HTTPError as error:
            raise _failed(url, error) from error
    try:
        return await _ask_one(url, headers, last)
    except httpx2.HTTPError as error:
        raise _failed(url, error) from error


async def _ask_one(url: "httpx2.URL", headers: Mapping[str, str], address: str) -> Reply:
    async with await client_for(url) as client:
        asked = {"Accept": "*/*", **headers, "Accept-Encoding": "gzip"}
        response = await client.send(request_at(client, "GET", url, address, asked), stream=True)
        try:
            return await _taken(url, response)
        finally:
            await response.aclose()


async def client_for(url: "httpx2.URL") -> "httpx2.AsyncClient":
    """Make a client for one request.

    A connection that is kept is known by its address alone, and the next host at that address would be spoken
    to without looking at its certificate. Nor are cookies handed on, or proxies of the environment used.
    """
    import httpx2

    transport = httpx2.AsyncHTTPTransport(verify=await tls_for(str(url)))
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=timeout)


def request_at(
    client: "httpx2.AsyncClient",
    method: str,
    url: "httpx2.URL",
    address: str,
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> "httpx2.Request":
    """Make a request for `url` that goes to an address which was checked before."""
    from halo.version import __version__

    return client.build_request(
        method,
        url.copy_with(host=address),
        headers={
            "User-Agent": f"halo/{__version__}",
            **{name.title(): value for name, value in headers.items()},
            "Host": url.netloc.decode("ascii"),
            "Connection": "close",
        },
        content=content,
        extensions={"sni_hostname": url.raw_host.decode("ascii").removesuffix(".")}
        if url.scheme == "https"
        else {},
    )


async def _taken(url: "httpx2.URL", response: "httpx2.Response") -> Reply:
    head = response.headers
    location = head.get("location", "") if response.status_code in _MOVED else ""
    body, whole = (b"", True) if location else await _body(url, response)
    return Reply(
        response.status_code,
        head.get("content-type", ""),
        head.get("content-length", ""),
        location,
        body,
        whole,
    )


async def _body(url: "httpx2.URL", response: "httpx2.Response") -> tuple[bytes, bool]:
    """Take bytes until there is enough for the model; unpacking stops there, too."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolFailure(
            f"{brief(str(url))} comes packed as {brief(coding)}, which web_fetch did not ask for"
        )
    gunzip = _Gunzip() if coding.endswith("gzip") else None
    body, taken = bytearray(), 0
    try:
        async for chunk in response.aiter_raw():
            taken += len(chunk)
            room = BODY + 1 - len(body)
            body += gunzip.unpack(chunk, room) if gunzip is not None else chunk[:room]
            if len(body) > BODY or taken > _RAW:
                return bytes(body[:BODY]), False
    except zlib.error:
        raise ToolFailure(f"{brief(str(url))} is damaged: it cannot be unpacked") from None
    if gunzip is not None and taken and not gunzip.done:
        raise ToolFailure(f"{brief(str(url))} is damaged: its packed text breaks off")
    return bytes(body), True


class _Gunzip:
    """Unpacks gzip, which may be several members one after the other, never more than is wanted."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def done(self) -> bool:
        return self._member.eof

    def unpack(self, chunk: bytes, room: int) -> bytes:
        text = b""
        while chunk and len(text) < room:
            if self._member.eof:
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            text += self._member.decompress(chunk, room - len(text))
            chunk = self._member.unused_data
        return text


def _failed(url: "httpx2.URL", error: Exception) -> ToolFailure:
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            why = "its server does not take the connection"
        case httpx2.ConnectError() if "CERTIFICATE" in str(error).upper():
            why = f"its certificate is not accepted ({brief(str(error))})"
        case httpx2.ConnectError():
            why = "its server cannot be reached"
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            why = f"its server broke off, or does not speak HTTP ({brief(str(error)) or 'no reason given'})"
        case _:
            why = brief(str(error)) or type(error).__name__
    return ToolFailure(f"{brief(str(url))} could not be fetched: {why}")
