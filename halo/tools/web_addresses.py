"""Which addresses of the internet a model may reach: public ones, as pure rules.

A page may say `http://router.local/` or redirect to it; a name may lead to this machine or to the service
that hands out a cloud machine's credentials (169.254.169.254). So every address is looked at, not the name.
"""

import ipaddress
from collections.abc import Collection

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Only these IPv6 addresses are handed out for use on the internet.
_UNICAST = ipaddress.IPv6Network("2000::/3")
# For documentation, which older versions of `ipaddress` do not know.
_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")

# Services for a cloud machine itself, at addresses that count as public. Older versions of `ipaddress` take
# the network for public that they are in, too.
_OF_CLOUDS = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("168.63.129.16/32"))

# IPv6 addresses that stand for an IPv4 address: the network, and the first of the bits that are it.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4 = ipaddress.IPv6Network("2002::/16")


def is_public(address: str) -> bool:
    """Tell whether an address, as text, is one of a host on the internet.

    Not public: this machine, private networks, carriers' networks (100.64.0.0/10), link-local, multicast,
    reserved and unassigned ones, and IPv6 addresses that stand for such an IPv4 address. Text that is no
    address is not public either.
    """
    try:
        found = _inner(ipaddress.ip_address(address))
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and (found not in _UNICAST or found in _DOCUMENTATION):
        return False
    if isinstance(found, ipaddress.IPv4Address) and any(found in network for network in _OF_CLOUDS):
        return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def is_opened(host: str, port: int, opened: Collection[str]) -> bool:
    """Tell whether the user opened a host: by its name as it is asked for, or by `name:port`."""
    host = _plain(host)
    spellings = {host, f"{host}:{port}", f"[{host}]", f"[{host}]:{port}"}
    return any(_plain(entry) in spellings for entry in opened)


def _plain(host: str) -> str:
    return host.strip().lower().removesuffix(".")


def _inner(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _MAPPED or address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _6TO4:
        return ipaddress.IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    return address
