"""Where a provider is spoken to, and where its key may go.

A provider's key goes to that provider's own endpoint over https, or to loopback; any other endpoint needs
`halo trust` (docs/decisions/0007-trust.md). Everything here fails closed: an address that two parsers could
read differently is refused, not interpreted.
"""

import ipaddress
import re
from typing import NamedTuple

from halo.errors import StartError, UnknownNameError

OWN_ENDPOINTS: dict[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "deepseek": "https://api.deepseek.com",
    "gemini": "https://generativelanguage.googleapis.com",
}

# Scheme, host (name, IPv4 or bracketed IPv6), port, path. No user info, query, fragment, backslash, space,
# control or non-ASCII character: each is a known way to make one parser see another host than the next.
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~%+=:-]*)*)",
    re.IGNORECASE,
)


class Address(NamedTuple):
    """The parts of an endpoint; `host` is lower case, without brackets or a final dot."""

    scheme: str
    host: str
    port: int
    path: str


def parse(endpoint: str) -> Address:
    """Take an endpoint apart. Raises StartError for anything that is not a plain http(s) address."""
    match = _ADDRESS.fullmatch(endpoint)
    if match is None:
        raise _unfit(endpoint)
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else {"http": 80, "https": 443}[scheme]
    if not 0 < port < 65536:
        raise _unfit(endpoint)
    host = match["host"].lower()
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError as error:
            raise _unfit(endpoint) from error
    return Address(scheme, host.strip("[]").removesuffix("."), port, match["path"].rstrip("/"))


def normalise(provider: str, endpoint: str) -> str:
    """Return the base address that the provider's client takes; empty means the provider's own.

    An OpenAI endpoint includes `/v1` (added when there is no path at all), Anthropic's does not (a final
    one is dropped, as the client adds it), nor does Gemini's `/v1beta`, DeepSeek's is taken as it is. A
    trailing slash is harmless.
    Raises StartError when it is no address, UnknownNameError for a provider without endpoints.
    """
    own = _own(provider)
    if not endpoint.strip():
        return own
    address = parse(endpoint.strip())
    path = address.path
    if provider == "openai" and not path:
        path = "/v1"
    elif provider == "anthropic":
        path = path.removesuffix("/v1")
    elif provider == "gemini":
        path = path.removesuffix("/v1beta")
    host = f"[{address.host}]" if ":" in address.host else address.host
    default = {"http": 80, "https": 443}[address.scheme]
    port = "" if address.port == default else f":{address.port}"
    return f"{address.scheme}://{host}{port}{path}"


def is_loopback(endpoint: str) -> bool:
    """Say whether an endpoint is surely on this machine; what cannot be parsed is not.

    `localhost`, 127.0.0.0/8 and ::1 are. Other spellings of such numbers (`127.1`, `0x7f000001`) and names
    below `localhost` are not, since what they resolve to depends on the resolver.
    """
    try:
        host = parse(endpoint).host
    except StartError:
        return False
    if host == "localhost":
        return True
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
        return number.ipv4_mapped.is_loopback
    return number.is_loopback


def is_own(provider: str, endpoint: str) -> bool:
    """Say whether an endpoint is the provider's own: its host, https, the default port."""
    try:
        address = parse(endpoint)
    except StartError:
        return False
    own = parse(_own(provider))
    return (address.scheme, address.host, address.port) == (own.scheme, own.host, own.port)


def check_key_may_go(provider: str, endpoint: str, *, trusted: bool) -> None:
    """Raise StartError unless the key of `provider` may be sent to `endpoint` (which is normalised).

    `trusted`: the user has allowed this endpoint with `halo trust`.
    """
    address = parse(endpoint)
    if is_loopback(endpoint) or is_own(provider, endpoint) or trusted:
        return
    own = parse(_own(provider))
    if address.host == own.host:
        raise StartError(
            f"the key of {provider} must not go to {endpoint}",
            hint=f"use {_own(provider)}: its own endpoint is reached over https at the default port only",
        )
    raise StartError(
        f"the key of {provider} must not go to {endpoint}: that is not the provider's own endpoint",
        hint="remove `endpoint` from the agent, or allow this one with `halo trust`",
    )


def _own(provider: str) -> str:
    try:
        return OWN_ENDPOINTS[provider]
    except KeyError as error:
        raise UnknownNameError.of("provider", provider, sorted(OWN_ENDPOINTS)) from error


def _unfit(endpoint: str) -> StartError:
    # What stands before an @ may be a password, so it is not repeated.
    shown = "…@" + endpoint.rpartition("@")[2] if "@" in endpoint else endpoint
    return StartError(
        f"endpoint {shown!r} is not a plain http or https address",
        hint="write it as https://host[:port][/path], without user name, query or fragment",
    )
