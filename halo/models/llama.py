"""llama.cpp inside this process: its own HTTP server, on loopback, for this process alone."""

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from halo.errors import MissingEngineError, ModelFileError, StartError

DISTRIBUTION = "xllamacpp"

# On a CPU flash attention prefills no faster (within 10 %), and the few new tokens of a turn take a third
# longer; Metal wants it. It changes how values lie in a saved state, hence `state_layout`.
_FLASH_ATTENTION = sys.platform == "darwin"

# llama.cpp's levels: 0 says nothing at all; 3 says why a model was not loaded.
_SILENT, _TALKATIVE = 0, 3


def default_threads(environ: Mapping[str, str]) -> int:
    """Return how many threads to compute with: `HALO_THREADS`, else one less than there are cores.

    One core stays free because threads wait for each other after every layer: two are faster on an idle
    machine with two cores and ten times slower on a busy one. Raises StartError for a bad `HALO_THREADS`.
    """
    chosen = environ.get("HALO_THREADS", "")
    if chosen:
        if not chosen.isdecimal() or not 0 < int(chosen) <= 512:
            raise StartError(f"HALO_THREADS is {chosen!r}", hint="set it to a number from 1, or unset it")
        return int(chosen)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def engine_version() -> str:
    """Return the engine's name and version, which model states depend on. Does not load it.

    Raises MissingEngineError when it is not installed.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    except PackageNotFoundError as error:
        raise _missing() from error


def state_layout() -> str:
    """Return what, beside the engine's version, decides how a saved state is laid out."""
    return f"{engine_version()}, flash attention {'auto' if _FLASH_ATTENTION else 'off'}"


class Engine:
    """A loaded model behind a server at `url`; requests carry `key` as a bearer token."""

    def __init__(self, server: Any, key: str) -> None:
        self._server = server
        self.url: str = server.listening_address
        self.key = key

    def close(self) -> None:
        """Stop the server and free the model; waits for its threads."""
        self._server = None


def start(path: str, *, alias: str, context_tokens: int, threads: int, states: str) -> Engine:
    """Load the model file and start the server; takes a second or more. `states`: folder for saved slots.

    `alias` is the model id that the server reports (its default would be the path). The server listens on
    127.0.0.1 at a free port and wants a random key, so that no other user of this machine can use it.
    Raises MissingEngineError, ModelFileError with llama.cpp's own reason.
    """
    try:
        import xllamacpp
    except ImportError as error:
        raise _missing(str(error)) from error
    key = secrets.token_urlsafe(32)
    params = _params(xllamacpp, path, alias, context_tokens, threads, states, key)
    try:
        return _answering(Engine(xllamacpp.Server(params), key))
    except RuntimeError as error:
        raise ModelFileError(
            f"llama.cpp cannot load this model: {_reason(xllamacpp, params) or error}",
            file=path,
            hint="the model may need a newer engine (`pip install -U xllamacpp`) or more memory "
            "(a smaller `context.max_tokens`)",
        ) from error


def _answering(engine: Engine) -> Engine:
    """Wait until the server's loop answers. One that is freed before its loop began waits for it for ever."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    connection = HTTPConnection(urlsplit(engine.url).netloc)
    try:
        # The list of slots is made by the loop; `/health` and `/tokenize` answer without it.
        connection.request("GET", "/slots", headers={"Authorization": f"Bearer {engine.key}"})
        connection.getresponse().read()
    finally:
        connection.close()
    return engine


def _params(
    engine: Any, path: str, alias: str, context_tokens: int, threads: int, states: str, key: str
) -> Any:
    params = engine.CommonParams()
    params.model.path = path
    params.model_alias = {alias}
    params.n_ctx = context_tokens
    params.n_parallel = 1  # one slot: a turn's state is restored into it
    params.n_batch = params.n_ubatch = 128  # tokens between two looks at whether the client has gone (Ctrl-C)
    params.port = 0
    params.api_keys = [key]
    params.use_jinja = True
    params.ui = False
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.slot_save_path = os.path.join(states, "")
    params.endpoint_slots = True
    params.cache_ram_mib = 0  # states live on disk; the default would keep 8 GiB of old slots in memory
    params.fit_params = False  # the same context on every machine, whatever memory is free
    params.n_ctx_checkpoints = 0  # for recurrent models; here they only cut the last batch in two
    if not _FLASH_ATTENTION:
        params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.verbosity = _SILENT
    return params


def _reason(engine: Any, params: Any) -> str:
    """Load once more, loudly, to learn from llama.cpp's log why the model was refused."""
    params.verbosity = _TALKATIVE
    with tempfile.TemporaryFile() as log:
        with _stderr_into(log.fileno()):
            try:
                _answering(Engine(engine.Server(params), params.api_keys[0])).close()
            except RuntimeError:
                pass
            else:
                return "it failed at first and loaded at the second attempt; try again"
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").splitlines()
    errors = [line.split(" E ", 1)[1] for line in lines if " E " in line]
    # The first complaint is the cause; those after it are its consequences.
    return " ".join(errors[0].split()) if errors else ""


@contextmanager
def _stderr_into(fd: int) -> Iterator[None]:
    """Send what C code writes to stderr into `fd`; Python's own stderr is the same file descriptor."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(fd, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _missing(reason: str = "") -> MissingEngineError:
    why = f" ({reason})" if reason else ""
    return MissingEngineError(
        f"the engine for local models is not installed{why}", hint="pip install 'halo-make[local]'"
    )
