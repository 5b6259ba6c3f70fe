"""Turns a YAML document into a typed value, strictly: an error names the line of the key that is wrong."""

import re
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from halo.errors import near_miss_hint
from halo.workspace.type_words import in_plain_words
from halo.workspace.yamldoc import Path, YamlDocument

T = TypeVar("T")

_AT = re.compile(r"^(?P<what>.*?)\s*-\s*at `(?:key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>[^`]*)`")


def convert(document: YamlDocument, kind: type[T], *, empty: T | None = None, within: str = "") -> T:
    """Convert the document to `kind`, strictly.

    An empty document gives `empty` where one is given. `within` is where the document stands in its file, for
    what is named in errors. Raises `LayerError` with the line of the
    offending key; an unknown key is answered with near misses.
    """
    if document.value is None and empty is not None:
        return empty
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _AT.match(text)
        what, where = (found["what"], found["path"]) if found else (text, "")
        path: Path = tuple(
            int(index) if index.isdigit() else name or index for name, index in _STEP.findall(where)
        )
        path = _with_keys(document, kind, text, path)
        unknown = _UNKNOWN.match(what)
        if unknown:
            known = _fields_at(kind, path)
            raise document.error(
                f"unknown key {unknown['name']!r}"
                + (f" in {'.'.join((within, *map(str, path)))}" if within else ""),
                *path,
                unknown["name"],
                hint=near_miss_hint(unknown["name"], known),
            ) from None
        name = ".".join(filter(None, (within, *map(str, path))))
        plain = in_plain_words(what, _choices_at(kind, path))
        raise document.error(f"{name or 'the document'}: {plain}", *path) from None


def _with_keys(document: YamlDocument, kind: type[Any], text: str, path: Path) -> Path:
    """Return `path` with the user's own keys, which msgspec writes as `...`.

    It stops at the first fault, so the key is the last of the shortest run of keys that still has that fault.
    """
    while "..." in path:
        at = path.index("...")
        keys = list(_value_at(document.value, path[:at]))
        first, last = 0, len(keys) - 1
        while first < last:
            middle = (first + last) // 2
            if _fault(_keeping(document.value, path[:at], set(keys[: middle + 1])), kind) == text:
                last = middle
            else:
                first = middle + 1
        path = (*path[:at], keys[first], *path[at + 1 :])
    return path


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _keeping(value: Any, path: Path, keys: set[Any]) -> Any:
    """Return `value` whose map at `path` has only these keys."""
    if not path:
        return {key: below for key, below in value.items() if key in keys}
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _keeping(value[path[0]], path[1:], keys)
    return copy


def _fault(value: Any, kind: type[Any]) -> str:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _fields_at(kind: Any, path: Path) -> list[str]:
    """List the keys that `kind` knows at `path`."""
    struct = next((o for o in _options_at(kind, path) if _is_struct(o)), None)
    return [f.encode_name for f in msgspec.structs.fields(struct)] if struct is not None else []


def _choices_at(kind: Any, path: Path) -> list[str]:
    """List the words that may stand at `path`, where only some may."""
    found = [get_args(o) for o in _options_at(kind, path) if get_origin(o) is Literal]
    return [str(word) for words in found for word in words]


def _options_at(kind: Any, path: Path) -> list[Any]:
    """Return the types that may stand at `path` of a value of type `kind`."""
    for step in path:
        kind = _below(kind, step)
    return _options(kind)


def _below(kind: Any, step: str | int) -> Any:
    """Return the type of what stands at `step` of a value of type `kind`; None where there is nothing."""
    for option in _options(kind):
        if _is_struct(option):
            return next((f.type for f in msgspec.structs.fields(option) if f.encode_name == step), None)
        arguments = get_args(option)
        if arguments and get_origin(option) in (dict, list, tuple):
            return arguments[1] if get_origin(option) is dict else arguments[0]
    return None


def _options(kind: Any) -> list[Any]:
    """Return the types that a value of type `kind` may have."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [option for part in get_args(kind) for option in _options(part)]
    return [kind]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
