"""YAML with line numbers: a value, and the line on which each part of it stands."""

import re
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from halo.errors import LayerError, near_miss_hint
from halo.workspace.type_words import in_plain_words

T = TypeVar("T")
Path = tuple[str | int, ...]

# A document may repeat itself through aliases; expanded, it must stay small ("billion laughs").
_MOST_NODES = 50_000
_DEEPEST = 60
# A node takes at most three events: its key, its start and its end.
_MOST_EVENTS = 3 * _MOST_NODES
_LONGEST_NUMBER = 400  # characters; the longest finite float has 309 digits

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """The safe loader with the plain scalars of YAML 1.2 (core schema).

    `no`, `on`, dates, `12:30` and `1_000` stay the text that the user wrote; `010` is ten. Values are those
    that JSON has: a set would come out in another order in every process.
    """


def _int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text):,} digits")
    return int(text, 0 if text[:2] in ("0x", "0o") else 10)


# tag, what it looks like, what it may begin with
_PLAIN = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("merge", r"<<", "<"),
)
_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _PLAIN:
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Loader.add_constructor(_TAG + "int", _int)
_Loader.add_constructor(_TAG + "timestamp", lambda loader, node: loader.construct_scalar(node))
for _tag in ("binary", "omap", "pairs", "set"):
    del _Loader.yaml_constructors[_TAG + _tag]


class YamlDocument(msgspec.Struct, frozen=True):
    """A parsed document: its value and the line (from 1) of every key and item, by path."""

    value: Any
    lines: dict[Path, int]
    source: str

    def line(self, *path: str | int) -> int:
        """Return the line of `path`, or of its nearest ancestor that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def error(self, message: str, *path: str | int, hint: str | None = None) -> LayerError:
        """Build an error that names this document and the line of `path`."""
        return LayerError(message, file=self.source, line=self.line(*path), hint=hint)


def load_yaml(text: str, source: str, first_line: int = 1) -> YamlDocument:
    """Parse `text`, which starts on `first_line` of `source`.

    Raises `LayerError` with the line for bad syntax, a key that stands twice, or a document that
    grows beyond 50,000 nodes or 60 levels. The result is shared and not to be changed: the latest small
    documents are kept, because a build reads an agent.yaml once for every team that its agent is on.
    """
    key = (text, source, first_line)
    document = _kept.get(key)
    if document is None:
        document = _load(text, source, first_line)
        if len(text) <= _SMALL and len(document.lines) <= _FEW_LINES:
            if len(_kept) >= _MOST_KEPT:
                _kept.pop(next(iter(_kept)), None)
            _kept[key] = document
    return document


# Together they bound what is kept to some megabytes.
_SMALL = 4_000  # characters
_FEW_LINES = 200
_MOST_KEPT = 256
_kept: dict[tuple[str, str, int], YamlDocument] = {}


def _load(text: str, source: str, first_line: int) -> YamlDocument:
    try:
        return _parse(text, source, first_line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        last = max(text.count("\n") - 1, 0)  # a document that ends too early ends on its last line
        line = first_line + min(mark.line if mark else 0, last)
        raise LayerError(f"not valid YAML: {error.problem}", file=source, line=line) from None
    except yaml.reader.ReaderError as error:
        # libyaml was given UTF-8, so its positions are bytes; the pure loader's are characters.
        pure = _Base is yaml.SafeLoader
        before = text[: error.position].encode() if pure else text.encode()[: error.position]
        line = first_line + before.count(b"\n")
        what = f"{error.reason}: {chr(error.character)!a}"
        raise LayerError(f"not valid YAML: {what}", file=source, line=line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise LayerError(f"not valid YAML: {error}", file=source, line=first_line) from None
    except (LookupError, AttributeError):
        # What PyYAML raises for `!!bool maybe` or an empty `!!int`.
        raise LayerError(
            "not valid YAML: a tag does not fit its value", file=source, line=first_line
        ) from None


def _parse(text: str, source: str, first_line: int) -> YamlDocument:
    if len(text) > _MOST_NODES:  # a node takes a character at least
        _refuse_flood(text, source, first_line)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Path, int] = {}
        if node is not None:
            _walk(node, (), lines, source, first_line)
        value = loader.construct_document(node) if node is not None else None
    finally:
        loader.dispose()
    return YamlDocument(value, lines, source)


def _refuse_flood(text: str, source: str, first_line: int) -> None:
    """Raise `LayerError` for more nodes than there may be, before any is made: each takes half a kilobyte."""
    for count, event in enumerate(yaml.parse(text, Loader=_Base)):
        if count > _MOST_EVENTS:
            line = event.start_mark.line if event.start_mark else 0
            raise LayerError("this YAML is too large or too deep", file=source, line=first_line + line)


def _walk(root: yaml.Node, top: Path, lines: dict[Path, int], source: str, first_line: int) -> None:
    """Note the line of every node; iterative, because the depth is the author's.

    Aliases are counted as often as they are used, and so is what merge keys bring in. A key is the text that
    stands there, whatever it would mean as a value: `1:` and `true:` are names.
    """
    stack: list[tuple[yaml.Node, Path]] = [(root, top)]
    visited = 0
    while stack:
        node, path = stack.pop()
        line = first_line + node.start_mark.line
        lines.setdefault(path, line)
        visited += 1
        if visited > _MOST_NODES or len(path) > _DEEPEST:
            raise LayerError("this YAML is too large or too deep", file=source, line=line)
        if isinstance(node, yaml.SequenceNode):
            stack.extend((item, (*path, i)) for i, item in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                key_line = first_line + key.start_mark.line
                if not isinstance(key, yaml.ScalarNode):
                    raise LayerError("a key must be plain text", file=source, line=key_line)
                name = str(key.value)
                if name in seen:
                    raise LayerError(f"the key {name!r} stands twice", file=source, line=key_line)
                seen.add(name)
                if key.tag != f"{_TAG}merge":
                    key.tag = f"{_TAG}str"
                lines[(*path, name)] = key_line
                stack.append((value, (*path, name)))


_AT = re.compile(r"^(?P<what>.*?)\s*-\s*at `(?:key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>[^`]*)`")


def convert(document: YamlDocument, kind: type[T], *, empty: T | None = None) -> T:
    """Convert the document to `kind`, strictly.

    An empty document gives `empty` where one is given. Raises `LayerError` with the line of the
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
                f"unknown key {unknown['name']!r}",
                *path,
                unknown["name"],
                hint=near_miss_hint(unknown["name"], known),
            ) from None
        name = ".".join(str(p) for p in path)
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
