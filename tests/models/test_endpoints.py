"""Where a key may go, and every trick to send it elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import StartError, UnknownNameError
from halo.models.endpoints import check_key_may_go, is_loopback, is_own, normalise, parse


@pytest.mark.parametrize(
    ("provider", "written", "base"),
    [
        ("openai", "", "https://api.openai.com/v1"),
        ("anthropic", "  ", "https://api.anthropic.com"),
        ("openai", "https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("openai", "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("openai", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
        ("openai", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("openai", "https://example.com/openai/deployments/x", "https://example.com/openai/deployments/x"),
        ("anthropic", "http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("anthropic", "https://api.anthropic.com/v1/", "https://api.anthropic.com"),
        ("anthropic", "HTTPS://API.Anthropic.COM:443", "https://api.anthropic.com"),
        ("openai", "http://[::1]:8080/v1", "http://[::1]:8080/v1"),
    ],
)
def test_an_endpoint_becomes_the_base_address_of_the_client(provider, written, base):
    assert normalise(provider, written) == base


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1", "http://127.0.0.1:8080/v1", "http://127.8.9.1", "http://localhost:1234",
        "http://LocalHost", "https://localhost./v1", "http://[::1]:8080", "http://[::ffff:127.0.0.1]",
    ],
)  # fmt: skip
def test_these_are_on_this_machine(url):
    assert is_loopback(url)
    check_key_may_go("openai", normalise("openai", url), trusted=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.evil.com", "http://localhost.evil.com", "http://evil.com#127.0.0.1", "http://evil.com/127.0.0.1",
        "http://localhost@evil.com", "http://127.0.0.1@evil.com/", "http://user:pw@localhost", "http://evil.com?@localhost",
        "http://localhost\\@evil.com", "http://evil.com\\@localhost", "http://local\thost", "http://localhost\n.evil.com",
        "http://127.1", "http://0x7f.0.0.1", "http://2130706433", "http://0.0.0.0", "http://0177.0.0.1", "http://[::]",
        "http://[fe80::1%25lo]", "http://[::1].evil.com", "http://\uff4cocalhost", "http://localhost:99999", "http://localhost:0",
        "http://localhost:8080:80", "ftp://localhost", "//localhost", "localhost:8080", "http://", "http:///v1", "http://a b",
        "http://foo.localhost", "http://[::ffff:8.8.8.8]", "http://128.0.0.1", "http://[::1", "http://.localhost",
    ],
)  # fmt: skip
def test_these_are_not_or_cannot_be_told(url):
    assert not is_loopback(url)
    with pytest.raises(StartError):
        check_key_may_go("openai", url, trusted=False)


@pytest.mark.parametrize(
    ("provider", "url"),
    [
        ("openai", "http://api.openai.com/v1"),
        ("openai", "https://api.openai.com:8443/v1"),
        ("openai", "https://api.openai.com.evil.com/v1"),
        ("openai", "https://evil.com/api.openai.com/v1"),
        ("openai", "https://api.openai.com@evil.com/v1"),
        ("openai", "https://api-openai.com/v1"),
        ("openai", "https://xapi.openai.com/v1"),
        ("openai", "https://api.anthropic.com"),
        ("anthropic", "https://api.openai.com/v1"),
        ("anthropic", "https://api.anthropic.com:444"),
        ("anthropic", "https://api.\u0430nthropic.com"),  # Cyrillic
        ("anthropic", "http://192.168.0.7:8080"),
    ],
)
def test_a_key_goes_nowhere_else_without_trust(provider, url):
    assert not is_own(provider, url)
    with pytest.raises(StartError) as error:
        check_key_may_go(provider, url, trusted=False)
    assert error.value.hint


def test_a_key_goes_to_its_own_provider_over_https():
    check_key_may_go("openai", "https://api.openai.com/v1", trusted=False)
    check_key_may_go("openai", "https://API.openai.com:443/v1", trusted=False)
    check_key_may_go("anthropic", "https://api.anthropic.com", trusted=False)


def test_trust_opens_other_endpoints_but_not_unreadable_ones():
    check_key_may_go("openai", "https://proxy.example.com/v1", trusted=True)
    for url in ("https://me:secret@proxy.example.com/v1", "https://a\\b", "https://x y"):
        with pytest.raises(StartError) as error:
            check_key_may_go("openai", url, trusted=True)
        assert "secret" not in str(error.value)


def test_an_unknown_provider_names_near_misses():
    with pytest.raises(UnknownNameError, match="opnai") as error:
        normalise("opnai", "")
    assert "openai" in (error.value.hint or "")


@given(st.text(max_size=40))
def test_whatever_parses_has_a_host_that_httpx2_sees_too(text):
    import httpx2

    for url in (text, "http://" + text, "https://localhost" + text):
        try:
            address = parse(url)
        except StartError:
            continue
        assert httpx2.URL(url).host.removesuffix(".") == address.host
