"""`models/<provider>.yaml`: what is known of a provider's models (docs/reference/models-yaml.md).

Whole-file override: the first of workspace, global folder and templates that has the file serves the
provider. A compile rests on the facts of its own model alone, and on no price (`model_part`).
"""

from datetime import date
from functools import lru_cache, partial
from typing import Annotated

import msgspec

from halo.errors import LayerError
from halo.files.canonical import canonical_json, canonical_text
from halo.files.tree import NotFound, Tree, read_part
from halo.files.tree_recording import Project
from halo.records.artifacts import Api, Capabilities
from halo.workspace.conversion import convert
from halo.workspace.layers import unusable
from halo.workspace.yamldoc import load_yaml

_Tokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a million tokens cost: `since` (`from` in the file) is the first day of which that is known.

    `cache_read` and `cache_write` empty: as the rest of the input; `cache_write_1h` empty: as `cache_write`.
    """

    since: date = msgspec.field(name="from")
    currency: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")]
    input: _Amount
    output: _Amount
    cache_read: _Amount | None = None
    cache_write: _Amount | None = None
    cache_write_1h: _Amount | None = None


class CatalogueModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model; what is not known is left out.

    In tokens: `window` for prompt and reply, `max_output` of one reply, `min_cacheable`, the shortest
    prefix that the provider caches. `api` is the protocol to speak where the provider has two and agent.yaml
    names none. `as_of`: the day on which somebody last looked.
    """

    as_of: date
    name: str = ""
    api: Api | None = None
    window: _Tokens | None = None
    max_output: _Tokens | None = None
    min_cacheable: _Tokens | None = None
    capabilities: Capabilities = Capabilities()
    prices: tuple[Price, ...] = ()


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """models/<provider>.yaml: `name` for people, `default` the id to begin with, `models` by id."""

    name: str
    models: dict[str, CatalogueModel]
    default: str = ""


class ModelFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a compile uses of a model's entry."""

    api: Api | None = None
    window: int | None = None
    max_output: int | None = None
    min_cacheable: int | None = None
    capabilities: Capabilities = Capabilities()


_PART = "model:"


def model_part(part: str) -> Project | None:
    """Return how the part `model:<id>` is cut out of a catalogue; None for any other part."""
    if not part.startswith(_PART):
        return None
    return partial(_facts_part, model=part.removeprefix(_PART))


def _facts_part(data: bytes, *, model: str) -> bytes:
    """Return the facts of `model` as canonical JSON; nothing where it has no entry."""
    entry = _catalogue(data, "models").models.get(model)
    if entry is None:
        return b""
    return canonical_json(
        ModelFacts(entry.api, entry.window, entry.max_output, entry.min_cacheable, entry.capabilities)
    )


def read_facts(tree: Tree, provider: str, model: str) -> ModelFacts | None:
    """Return what the serving catalogue says of a model; None where nobody knows it.

    Raises `LayerError` with file and line for a broken catalogue.
    """
    part = f"{_PART}{model}"
    project = partial(_facts_part, model=model)
    for source in catalogue_files(provider):
        try:
            found = read_part(tree, source, part, project)
        except NotFound:
            _refuse_other(tree, source)
            continue
        except LayerError:
            _catalogue(tree.read(source), source)  # says the same with the file's name
            raise
        return msgspec.json.decode(found, type=ModelFacts) if found else None
    return None


def read_catalogue(tree: Tree, provider: str) -> tuple[str, Catalogue] | None:
    """Read the catalogue that serves a provider, with its source; None where there is none.

    Raises `LayerError` with file and line.
    """
    for source in catalogue_files(provider):
        try:
            return source, _catalogue(tree.read(source), source)
        except NotFound:
            _refuse_other(tree, source)
    return None


def prices_of(tree: Tree, provider: str, model: str) -> tuple[Price, ...]:
    """Return the prices of a model, by no order; empty where none are known.

    For turns: prices never enter an artifact. Raises `LayerError` with file and line.
    """
    found = read_catalogue(tree, provider)
    entry = found[1].models.get(model) if found is not None else None
    return entry.prices if entry is not None else ()


def catalogue_files(provider: str) -> tuple[str, str, str]:
    """Return where the catalogue of a provider may lie, the first to serve first."""
    name = f"models/{provider}.yaml"
    return f"workspace:.halo/{name}", f"global:{name}", f"builtin:{name}"


def _refuse_other(tree: Tree, source: str) -> None:
    if tree.kind(source) == "other":
        raise unusable(source)


@lru_cache(maxsize=16)
def _catalogue(data: bytes, source: str) -> Catalogue:
    document = load_yaml(canonical_text(data, source), source)
    catalogue = convert(document, Catalogue)
    if catalogue.default and catalogue.default not in catalogue.models:
        raise document.error(f"default: there is no model {catalogue.default!r} here", "default")
    return catalogue
