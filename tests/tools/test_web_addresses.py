"""Which addresses are public, and how IPv6 spells an IPv4 address."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.web_addresses import is_opened, is_public

PUBLIC = (
    "1.1.1.1",
    "168.63.129.15",
    "192.0.1.1",
    "93.184.216.34",
    "223.255.255.255",
    "2606:4700::1111",
    "64:ff9b::101:101",
)

# The edges of each network that is not public.
NOT_PUBLIC = (
    *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"),
    *("127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254", "172.16.0.0", "172.31.255.255"),
    *("192.0.0.1", "192.0.2.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "100::1", "2001:db8::1", "2001::1", "3fff::1", "fc00::1", "fd12::1"),
    *("fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "64:ff9b:1::1", "4000::1", "5f00::1"),
    *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "::ffff:0:10.0.0.1"),
    *("192.0.0.192", "168.63.129.16", "::ffff:168.63.129.16"),  # services of clouds
    *("", "x", "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.1 ", "localhost"),
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address):
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_not_public(address):
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_in_each_spelling(address):
    number = int(address)
    for spelt in ((0xFFFF << 32) | number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)):
        assert is_public(str(ipaddress.IPv6Address(spelt))) == is_public(str(address))


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public(address):
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(str(address)) or address in ipaddress.ip_network("::ffff:0:0/96")


@pytest.mark.parametrize(
    ("host", "port", "entry", "opened"),
    [
        ("localhost", 80, "localhost", True),
        ("LocalHost.", 80, " localhost:80", True),
        ("localhost", 81, "localhost:80", False),
        ("::1", 80, "[::1]:80", True),
        ("::1", 80, "::1", True),
        ("::1", 80, "[::1]", True),
        ("x.localhost", 80, "localhost", False),
        ("localhost", 80, "*", False),
        ("localhost", 80, "", False),
    ],
)
def test_what_the_user_opened(host, port, entry, opened):
    assert is_opened(host, port, [entry]) is opened
