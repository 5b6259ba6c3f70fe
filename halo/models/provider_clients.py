"""What the providers' clients have in common: timeouts, limits, and nothing from the environment.

A client takes more from the environment than a key: other addresses, further headers, proxies. Only the
provider's own endpoint gets what is meant for it.
"""

import os
import sys
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from halo.models.bounded import HEADERS, bound
from halo.models.endpoints import is_loopback, is_own

if TYPE_CHECKING:
    import ssl

    import anthropic
    import openai

# Seconds. Prefill on a slow machine is silent for minutes; a connection is there at once or not at all.
READ_TIMEOUT = 600.0
_CONNECT_TIMEOUT = 10.0

# Where the environment names other certificates.
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

# OpenAI's client reads these headers from the environment; another endpoint has no business with them.
_OWN_HEADERS = ("OpenAI-Organization", "OpenAI-Project")


def http_options(endpoint: str, read_timeout: float = READ_TIMEOUT) -> dict[str, Any]:
    """Return the options of the HTTP client below a provider's client.

    `read_timeout`: seconds that the other side may be silent.
    """
    import httpx2

    loopback = is_loopback(endpoint)
    return {
        "timeout": httpx2.Timeout(read_timeout, connect=_CONNECT_TIMEOUT),
        "follow_redirects": False,
        # A proxy of the environment must not see what is meant for this machine.
        "trust_env": not loopback,
        "verify": certificates(endpoint),
        # Servers on this machine (llama.cpp's) drop idle connections when they like; a new one is free.
        "limits": httpx2.Limits(max_keepalive_connections=0 if loopback else 20),
        "headers": HEADERS,
        "event_hooks": {"response": [bound]},
    }


def certificates(endpoint: str) -> "ssl.SSLContext":
    """Return what the certificate of an endpoint is checked against; nothing passes where there is no TLS."""
    import ssl

    if endpoint.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    loopback = is_loopback(endpoint)
    return _authorities(*(not loopback and os.environ.get(name) for name in _CERTIFICATES))


@lru_cache(maxsize=4)
def _authorities(*named: str | bool | None) -> "ssl.SSLContext":
    """Load the authorities, once in a process: that takes longer than a short call.

    `named` are the values of `_CERTIFICATES` in the environment, False where it is not asked.
    """
    import httpx2

    return httpx2.create_ssl_context(trust_env=False not in named)


def without_custom_headers(variable: str, key: str, omit: object) -> dict[str, object]:
    """Return headers that undo those which a client would take from an environment variable.

    `omit` is the client's mark for a header that is not sent; an Authorization is set right again.
    """
    lines = os.environ.get(variable, "").split("\n")
    names = [name.strip() for name, colon, _ in (line.partition(":") for line in lines) if colon]
    return {name: f"Bearer {key}" if name.lower() == "authorization" else omit for name in names}


def openai_client(
    provider: str, endpoint: str, key: str, read_timeout: float = READ_TIMEOUT
) -> "openai.AsyncOpenAI":
    """Make OpenAI's client for an endpoint of `provider`; `read_timeout` as in `http_options`."""
    import openai

    headers: dict[str, Any] = {}
    if provider != "openai" or not is_own(provider, endpoint):
        headers = dict.fromkeys(_OWN_HEADERS, openai.omit)
        headers |= without_custom_headers("OPENAI_CUSTOM_HEADERS", key, openai.omit)
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=endpoint,
        max_retries=0,
        default_headers=headers,
        http_client=openai.DefaultAsyncHttpxClient(**http_options(endpoint, read_timeout)),
    )


async def events_of(
    client: "openai.AsyncOpenAI | anthropic.AsyncAnthropic", path: str, body: dict[str, Any]
) -> AsyncGenerator[object, None]:
    """Send a streamed request and yield its events as decoded JSON.

    By the client's way for endpoints that it does not know, and as bytes: else it walks the whole history
    to copy and convert what needs neither, and builds a model of each event. Anthropic's also reads the
    arguments of calls as they come, and fails where a model writes them wrongly.
    """
    package: Any = sys.modules[type(client).__module__.partition(".")[0]]
    content = msgspec.json.encode(body)
    stream: Any = await client.post(
        path, cast_to=object, content=content, stream=True, stream_cls=package.AsyncStream[object]
    )
    async with stream:
        async for event in stream:
            yield event
