"""The real model, a real llama.cpp server, and the scripted one.

The model file (98 MB) is pulled once into a cache that outlives the run: `HALO_TEST_CACHE`, else
`halo-tests` in the user's cache folder. Saved states go to a cache of the run itself.
"""

import os

import pytest
from turning import MODEL, ScriptedServer

from halo.models.catalogue import cache_dir, resolve
from halo.models.pull import pull


@pytest.fixture(scope="session")
def model_file():
    """Path of the real model, fetched when it is not there yet."""
    pytest.importorskip("xllamacpp", reason="the engine (extra `local`) is not installed")
    cache = os.environ.get("HALO_TEST_CACHE") or os.path.join(
        os.path.dirname(cache_dir(os.environ)), "halo-tests"
    )
    pull(MODEL, cache, lambda _done, _total: None)
    return resolve(MODEL, cache, "/")


class LlamaServer:
    def __init__(self, engine):
        self.url = engine.url
        self.key = engine.key


@pytest.fixture(scope="session")
def llama_server(model_file, tmp_path_factory):
    """A real llama.cpp server on loopback, shared by the tests of the run."""
    from halo.models import llama

    folder = tmp_path_factory.mktemp("slots")
    engine = llama.start(model_file, alias="smollm2", context_tokens=2048, threads=1, states=str(folder))
    yield LlamaServer(engine)
    engine.close()


@pytest.fixture(scope="session")
def shared_cache(model_file, tmp_path_factory):
    """A cache with the model in it (linked) and no states at first; shared, since prefill is slow."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "models").mkdir()
    target = cache / "models" / f"{MODEL}.gguf"
    try:
        os.link(model_file, target)
    except OSError:
        os.symlink(model_file, target)
    return str(cache)


@pytest.fixture
def scripted():
    server = ScriptedServer()
    yield server
    server.close()
