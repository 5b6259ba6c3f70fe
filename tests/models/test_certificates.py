"""The authorities of TLS are loaded where there is TLS, and once: each time costs more than a short call."""

import asyncio
import ssl

import httpx2
import pytest

from halo.models import provider_clients
from halo.models.failures import Call
from halo.models.gemini_client import GeminiClient
from halo.models.llama_client import LlamaClient
from halo.models.provider_clients import http_options, openai_client


@pytest.fixture
def loaded(monkeypatch):
    """How often they were loaded, by whomever."""
    times = []

    def counted(real):
        def create(*args, **named):
            times.append(real)
            return real(*args, **named)

        return create

    monkeypatch.setattr(ssl, "create_default_context", counted(ssl.create_default_context))
    monkeypatch.setattr(httpx2, "create_ssl_context", counted(httpx2.create_ssl_context))
    monkeypatch.setattr(httpx2._config, "create_ssl_context", counted(httpx2._config.create_ssl_context))
    provider_clients._authorities.cache_clear()
    return times


def open_all(scheme):
    async def run():
        for _ in range(2):
            gemini = GeminiClient(f"{scheme}://127.0.0.1:9", "k")
            gemini._open()
            await gemini.close()
            client = openai_client("openai", f"{scheme}://127.0.0.1:9/v1", "k")
            await client.close()

    asyncio.run(run())


def test_for_a_server_without_tls_they_are_not(loaded):
    open_all("http")
    asyncio.run(LlamaClient(Call("local", "http://127.0.0.1:9", "m")).close())
    assert loaded == []


def test_in_one_process_they_are_loaded_once_whatever_the_clients(loaded):
    open_all("https")
    assert len(loaded) == 1


def test_without_tls_no_certificate_would_pass():
    context = http_options("http://127.0.0.1:9")["verify"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs() == []
