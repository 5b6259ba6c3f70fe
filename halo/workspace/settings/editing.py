"""Edits settings.yaml for a command; everything else in it stays as its author wrote it."""

import io
from typing import Any

from halo.errors import LayerError
from halo.files.canonical import canonical_text
from halo.files.tree import MemoryTree
from halo.workspace.settings.disabling import Kind
from halo.workspace.settings.files import read_settings
from halo.workspace.settings.general import read_general
from halo.workspace.yamldoc import load_yaml

_APPENDED = "general:\n  disabled:\n    {kind}: [{entry}]\n"


def switch(data: bytes, kind: Kind, entry: str, *, off: bool, source: str) -> bytes:
    """Return the settings file `data` with `entry` added to `general.disabled.<kind>`, or taken out.

    `data` is empty for a file that is not there yet; unchanged data are returned as they are. Comments, order
    and quotes stay. Raises `LayerError` for a file that is broken, or that cannot be edited without loss.
    """
    tree = MemoryTree({source: data})
    general = read_general(tree)
    value = read_settings(tree, source).value
    entries = general.disabled.agents if kind == "agents" else general.disabled.skills
    if entries.count(entry) == (1 if off else 0):
        return data
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    if "general" not in value:
        if text and not text.endswith("\n"):
            text += "\n"
        text += ("\n" if text else "") + _APPENDED.format(kind=kind, entry=entry)
    else:
        text = _rewritten(text, kind, entry, off=off)
    _verify(value, load_yaml(canonical_text(text.encode(), source), source).value, kind, entry, off, source)
    return (text.replace("\n", "\r\n") if b"\r\n" in data else text).encode()


def _rewritten(text: str, kind: Kind, entry: str, *, off: bool) -> str:
    """Edit the parsed file and write it back with its comments."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.util import load_yaml_guess_indent

    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    yaml.explicit_start = text.startswith("---") or None
    yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
    document = yaml.load(text)
    general = document["general"]
    if general is None:
        general = document["general"] = CommentedMap()
    disabled = general.get("disabled")
    if disabled is None:
        disabled = general["disabled"] = CommentedMap()
    entries = disabled.get(kind)
    if entries is None:
        entries = disabled[kind] = CommentedSeq()
        entries.fa.set_flow_style()
    while entry in entries:
        entries.remove(entry)
    if off:
        entries.append(entry)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _entries(value: Any, kind: Kind) -> list[Any]:
    for step in ("general", "disabled", kind):
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def _verify(before: Any, after: Any, kind: Kind, entry: str, off: bool, source: str) -> None:
    """Compare what both texts mean: the one entry may differ, and nothing else."""
    changed = set(map(repr, _entries(before, kind))) ^ set(map(repr, _entries(after, kind)))
    if changed != {repr(entry)} or _without(before, kind) != _without(after, kind):
        raise LayerError(
            "this file cannot be edited without changing more of it",
            file=source,
            hint=f"{'add' if off else 'remove'} {entry} under general: disabled: {kind}: yourself",
        )


def _without(value: Any, kind: Kind) -> Any:
    """Copy settings without `general.disabled.<kind>`, and without the maps that are empty then."""
    if not isinstance(value, dict):
        return {}
    general = {**(value.get("general") or {})}
    disabled = {k: v for k, v in (general.pop("disabled", None) or {}).items() if k != kind}
    if disabled:
        general["disabled"] = disabled
    rest = {k: v for k, v in value.items() if k != "general"}
    return {**rest, "general": general} if general else rest
