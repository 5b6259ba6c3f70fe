"""settings.yaml: values that stay out of the layers. Reading never expands anything."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from halo.errors import LayerError
from halo.files.canonical import canonical_text
from halo.files.tree import NotFound, Tree
from halo.records.artifacts import PROVIDERS
from halo.workspace.yamldoc import YamlDocument, load_yaml

WORKSPACE_SETTINGS = "workspace:.halo/settings.yaml"
GLOBAL_SETTINGS = "secrets:settings.yaml"

# What Halo itself reads of a provider's secrets.
API_KEY = "api_key"

_ENV = re.compile(r"<<([A-Z_][A-Z0-9_]*)>>")


class Setting(msgspec.Struct, frozen=True):
    """One value as it is written, with its file and line."""

    value: Any
    source: str
    line: int

    @property
    def text(self) -> str:
        """The value as text: strings as they are, true/false, numbers; empty for lists and maps."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return str(self.value) if isinstance(self.value, str | int | float) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The environment variables that it names as `<<NAME>>`."""
        return variables_in(self.text)

    @property
    def is_reference(self) -> bool:
        """Whether it is `<<NAME>>` and nothing else: a name, which is no secret."""
        return _ENV.fullmatch(self.text.strip()) is not None


def dotted_keys(block: Any) -> Iterator[str]:
    """Yield the dotted key of every value below a map; a list is one value."""
    if isinstance(block, dict):
        for key, below in block.items():
            if isinstance(below, dict):
                yield from (f"{key}.{rest}" for rest in dotted_keys(below))
            elif below is not None:
                yield key


def variables_in(text: str) -> tuple[str, ...]:
    """Return the environment variables that a value names as `<<NAME>>`."""
    return tuple(_ENV.findall(text))


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Replace `<<NAME>>` by the environment's value. Unset ones stay literal and are returned as well."""
    unset = tuple(name for name in _ENV.findall(text) if name not in environ)
    return _ENV.sub(lambda m: environ.get(m[1], m[0]), text), unset


def read_settings(tree: Tree, source: str) -> YamlDocument:
    """Read one settings file; an absent one is empty.

    Shape: `general` or an id, each a map; below an id only `params` and `secrets`, each a map.
    Raises `LayerError` with the line.
    """
    try:
        document = parse_settings(tree.read(source), source)
    except NotFound:
        return YamlDocument({}, {}, source)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise LayerError("settings are a map of ids", file=source, line=1)
    for name, block in value.items():
        if not isinstance(block, dict | None):
            raise document.error(f"{name}: a map was expected", name)
        for part, entries in (block or {}).items():
            if name != "general" and part not in ("params", "secrets"):
                raise document.error(f"{name}.{part}: unknown", name, part, hint=_meant(name, part))
            if name != "general" and not isinstance(entries, dict | None):
                raise document.error(f"{name}.{part}: a map was expected", name, part)
    return YamlDocument(value, document.lines, source)


def _meant(name: str, part: str) -> str:
    """Say where a value belongs that stands directly below an id."""
    if name in PROVIDERS and part == API_KEY:
        return f"did you mean {name}.secrets.{part}? only params and secrets stand below an id"
    return f"only params and secrets stand below an id: {name}.params.{part} or {name}.secrets.{part}"


@lru_cache(maxsize=8)
def parse_settings(data: bytes, source: str) -> YamlDocument:
    """Parse the bytes of a settings file, which every target asks for again. Raises `LayerError`."""
    return load_yaml(canonical_text(data, source), source)


def lookup(document: YamlDocument, dotted: str) -> Setting | None:
    """Find `dotted`, such as `reports.params.region`, in one settings file."""
    path = tuple(dotted.split("."))
    value = document.value
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    if value is None:
        return None
    return Setting(value, document.source, document.line(*path))


def find_setting(tree: Tree, dotted: str) -> Setting | None:
    """Find a value: the workspace's settings first, then the global ones. Each file is read when needed."""
    return lookup(read_settings(tree, WORKSPACE_SETTINGS), dotted) or lookup(
        read_settings(tree, GLOBAL_SETTINGS), dotted
    )
