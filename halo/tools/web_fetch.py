"""`web_fetch`: a page or file of the internet, over HTTP.

What comes back is a stranger's, and so is every address that a redirect names. A name is resolved once, every
address that it leads to must be public (`web_addresses`), and the connection goes to one of exactly those
(`web_client`): no second look-up could answer differently. Proxies of the environment are not used: they
would look the name up themselves.
"""

import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from halo.tools.base import Surroundings, ToolFailure, brief
from halo.tools.web_addresses import is_opened, is_public
from halo.tools.web_client import BODY, Reply, ask
from halo.tools.web_text import as_text

if TYPE_CHECKING:
    import httpx2

_SECONDS = 10.0  # for everything
_ADDRESSES = 4  # of a name, that are tried
_REDIRECTS = 5
_URL = 8192  # characters
_HEADERS = 8192  # characters of names and values

_HOST = re.compile(r"[0-9a-z._:-]{1,253}", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[0-9A-Za-z!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")

# What only whoever speaks the protocol can set, and what would let a request say that it is for another host.
_RESERVED = frozenset(
    {
        *("host", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "content-length", "content-encoding", "accept-encoding", "expect", "http2-settings"),
        *("proxy-authorization", "proxy-authenticate"),
    }
)
# What may go to another origin than the one that it was meant for.
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})

# Looks up a name: the addresses as text, in the order in which they are tried.
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def web_fetch(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Fetch with GET; return status, type and as much of the text as the cap allows."""
    return await fetch(arguments["url"], arguments.get("headers", {}), around.private_hosts)


async def fetch(
    url: str,
    headers: Mapping[str, str],
    opened: Collection[str],
    resolve: Resolve | None = None,
    seconds: float = _SECONDS,
) -> str:
    """Fetch `url`, redirects followed; `opened` hosts may have private addresses.

    Raises `ToolFailure` for what cannot or may not be fetched; an answer of any status is a result.
    """
    import asyncio

    try:
        async with asyncio.timeout(seconds):
            return await _follow(_checked_url(url), _checked_headers(headers), opened, resolve or look_up)
    except TimeoutError:
        raise ToolFailure(f"{brief(url)} was not fetched within {seconds:g} seconds") from None


async def _follow(
    url: "httpx2.URL", headers: dict[str, str], opened: Collection[str], resolve: Resolve
) -> str:
    first = url
    for _ in range(_REDIRECTS + 1):
        reply = await ask(url, headers, await _addresses(url, opened, resolve))
        if not reply.location:
            return _shown(reply, "" if url == first else str(url))
        try:
            there = _checked_url(reply.location, url)
        except ToolFailure as error:
            raise ToolFailure(f"{_said(url)} redirects to what cannot be fetched: {error}") from None
        if _origin(there) != _origin(url):
            headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
        url = there
    raise ToolFailure(f"{_said(first)} redirects more than {_REDIRECTS} times")


def _checked_url(url: str, base: "httpx2.URL | None" = None) -> "httpx2.URL":
    import httpx2

    if len(url) > _URL:
        raise ToolFailure(f"a URL of {len(url)} characters is too long; {_URL} are possible")
    try:
        parsed = base.join(url) if base is not None else httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolFailure(f"{brief(url)} is no URL: {brief(str(error))}") from None
    if parsed.scheme not in ("http", "https"):
        raise ToolFailure(f"{brief(url)} is not an http or https URL; write it in full")
    if parsed.userinfo:
        raise ToolFailure("a URL with a user name or password is not fetched; leave them out")
    host = parsed.raw_host.decode("ascii", "replace")
    if not _HOST.fullmatch(host) or not 0 < _port(parsed) < 65536:
        raise ToolFailure(f"{brief(url)} names no host that could be reached")
    return parsed.copy_with(fragment=None)


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    if sum(len(name) + len(value) for name, value in headers.items()) > _HEADERS:
        raise ToolFailure(f"the headers are too long; {_HEADERS} characters are possible")
    for name, value in headers.items():
        if name.lower() in _RESERVED:
            raise ToolFailure(f"the header {brief(name)} is set by web_fetch itself; leave it out")
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ToolFailure(f"{brief(name)} and its value are no header; they hold ASCII on one line")
    return dict(headers)


async def _addresses(url: "httpx2.URL", opened: Collection[str], resolve: Resolve) -> list[str]:
    """Look the host up, once, and check every address that it leads to."""
    host, port = url.raw_host.decode("ascii"), _port(url)
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError):
        raise ToolFailure(f"the host {brief(host)} is not known") from None
    if not found:
        raise ToolFailure(f"the host {brief(host)} is not known")
    if not is_opened(host, port, opened) and not all(is_public(address) for address in found):
        raise ToolFailure(
            f"{brief(host)} is not on the public internet, and web_fetch goes nowhere else; only the user "
            "can open it, with private_hosts in the settings"
        )
    return found[:_ADDRESSES]


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses that a name leads to. Raises OSError or UnicodeError for one that is not known."""
    import asyncio

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _shown(reply: Reply, moved: str) -> str:
    """Lay an answer out. What the server says of it is bounded and stays on its line."""
    lines = [f"Status: {reply.status}", f"Content-Type: {brief(reply.content_type) or 'not given'}"]
    if moved:
        lines.append(f"Redirected to: {brief(moved)}")
    text = as_text(reply.body, reply.content_type)
    if text is None:
        size = f"{reply.length} bytes" if reply.length.isascii() and reply.length.isdigit() else "bytes"
        text = f"({size[:30]} that are no text; they are not shown)"
    elif not reply.whole:
        text += f"\n... [cut: only the first {BODY >> 10} KiB were fetched]"
    return "\n".join([*lines, "", text])


def _origin(url: "httpx2.URL") -> tuple[str, str, int]:
    return url.scheme, url.host, _port(url)


def _port(url: "httpx2.URL") -> int:
    return url.port if url.port is not None else {"http": 80, "https": 443}[url.scheme]


def _said(url: "httpx2.URL") -> str:
    return brief(str(url))
