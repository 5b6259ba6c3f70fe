"""YAML with line numbers: a value, and the line on which each part of it stands."""

import re
from typing import Any

import msgspec
import yaml

from halo.errors import LayerError

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
