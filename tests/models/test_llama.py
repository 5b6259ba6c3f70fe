"""The engine: silent, private, and clear about what it cannot load."""

import asyncio
import sys

import pytest
from test_gguf import small

from halo.errors import MissingEngineError, ModelFileError, ProviderError, StartError
from halo.models import llama
from halo.models.failures import Call


def test_nobody_else_on_this_machine_can_use_it(llama_server):
    import httpx2

    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    for headers in ({}, {"Authorization": "Bearer guess"}):
        answer = httpx2.post(llama_server.url + "/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 401
    assert llama_server.url.startswith("http://127.0.0.1:")
    assert len(llama_server.key) > 40


def test_it_says_nothing_on_its_own(model_file, tmp_path, capfd):
    engine = llama.start(model_file, alias="m", context_tokens=256, threads=1, states=str(tmp_path))
    engine.close()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_model_that_it_cannot_load_is_explained(tmp_path, capfd):
    pytest.importorskip("xllamacpp")
    path = tmp_path / "odd.gguf"
    path.write_bytes(small())
    with pytest.raises(ModelFileError, match=r"cannot load this model: .*architecture") as error:
        llama.start(str(path), alias="m", context_tokens=256, threads=1, states=str(tmp_path))
    assert str(path) in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_missing_engine_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingEngineError) as error:
        llama.start("x.gguf", alias="m", context_tokens=256, threads=1, states=str(tmp_path))
    assert "pip install 'halo-make[local]'" in str(error.value)
    monkeypatch.setattr(llama, "DISTRIBUTION", "no-such-engine")
    with pytest.raises(MissingEngineError):
        llama.engine_version()


def test_threads():
    assert llama.default_threads({"HALO_THREADS": "3"}) == 3
    assert llama.default_threads({}) >= 1
    for bad in ("0", "-1", "two", "1.5", "9999999"):
        with pytest.raises(StartError, match="HALO_THREADS"):
            llama.default_threads({"HALO_THREADS": bad})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "exceeds the available context size"}, "overflow"),
        ({"code": 500, "type": "server_error", "message": "out of memory"}, "transient"),
    ],
)  # fmt: skip
def test_what_it_says_in_the_middle_of_an_answer_keeps_its_meaning(scripted, error, kind):
    from halo.models.llama_client import LlamaClient

    scripted.says_chat({"choices": [{"delta": {"content": "Half"}}]}, {"error": error})

    async def read():
        client = LlamaClient(Call("local", scripted.url, "m", "k"))
        try:
            return [chunk async for chunk in client.chat({})]
        finally:
            await client.close()

    with pytest.raises(ProviderError) as raised:
        asyncio.run(read())
    assert raised.value.kind == kind
