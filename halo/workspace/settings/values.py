"""Every value of the settings as people may see it: unexpanded, secrets masked, and who claims it."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.workspace.ids import is_id, list_ids
from halo.workspace.settings.files import (
    API_KEY,
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    lookup,
    read_settings,
    variables_in,
)
from halo.workspace.settings.params import Params, read_params

# Declared in config.yaml; of an agent or skill that is there, but not declared; of nobody that is there.
Claim = Literal["halo", "declared", "undeclared", "unclaimed"]


class Value(NamedTuple):
    """One value, or a declared parameter without one (`source` is then where it is declared).

    `shown` is never expanded, and masked where it is a secret or may be one. `hidden` says that the
    workspace has another value, which counts; `bare` that it is a secret itself and names no variable.
    """

    name: str
    shown: str
    source: str
    line: int
    claim: Claim
    hidden: bool = False
    default: bool = False
    bare: bool = False


def list_values(tree: Tree) -> list[Value]:
    """List the values of both settings files, then declared parameters that have none, sorted by name.

    Raises `LayerError` for a file that cannot be read.
    """
    known = {name: read_params(tree, name) for kind in ("agents", "skills") for name in list_ids(tree, kind)}
    found: list[Value] = []
    above = read_settings(tree, WORKSPACE_SETTINGS)
    for document in (above, read_settings(tree, GLOBAL_SETTINGS)):
        for path, value in _leaves(document.value, ()):
            name = ".".join(path)
            hidden = document is not above and lookup(above, name) is not None
            judged = _judge(path, known)
            shown = _masked(value) if judged.masked else _text(value)
            bare = judged.secret and not variables_in(_text(value))
            line = document.line(*path)
            found.append(Value(name, shown, document.source, line, judged.claim, hidden, bare=bare))
    named: set[str] = set()
    for value in found:
        steps = value.name.split(".")
        named.update(".".join(steps[:i]) for i in range(3, len(steps) + 1))
    for owner, params in known.items():
        for key, declared in params.declared.items():
            name = f"{owner}.params.{key}"
            if name in named:
                continue
            secret = params.is_secret(key)
            default = declared.param.default
            shown = "" if default is None else _masked(default) if secret else _text(default)
            there = default is not None
            found.append(
                Value(
                    *(name, shown, declared.source, declared.line, "declared"),
                    default=there,
                    bare=there and secret,
                )
            )
    return sorted(found, key=lambda v: (v.name, v.hidden))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what is no map, with its path; a list is one value."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif path and value is not None and value != {}:
        yield path, value


class _Judged(NamedTuple):
    claim: Claim
    secret: bool
    masked: bool


def _judge(path: tuple[str, ...], known: dict[str, Params]) -> _Judged:
    """Decide whose a value is, and what of it may be seen.

    Of somebody who is not there nothing says what is secret, so all of it is masked.
    """
    owner, *rest = path
    if owner == "general":
        return _Judged("halo", secret=False, masked=False)
    part, key = (rest[0], ".".join(rest[1:])) if rest else ("", "")
    if owner in PROVIDERS and part == "secrets" and key == API_KEY:
        return _Judged("halo", secret=True, masked=True)
    params = known.get(owner)
    if params is None or not is_id(owner):
        return _Judged("unclaimed", secret=part == "secrets", masked=True)
    secret = part == "secrets" or params.is_secret(key)
    declared = key in params.secret if part == "secrets" else secret or key in params.declared
    return _Judged("declared" if declared else "undeclared", secret, masked=secret)


def _text(value: Any) -> str:
    setting = Setting(value, "", 0)
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return setting.text if setting.text or value == "" else str(value)


# A secret shorter than this would be given away by its ends.
_SHORT = 12


def _masked(value: Any) -> str:
    """Show a reference such as `<<NAME>>` as it is, and of anything else the ends at most."""
    text = _text(value)
    names = variables_in(text)
    if len(names) == 1 and text.strip() == f"<<{names[0]}>>":
        return text
    return f"{text[:2]}****{text[-2:]}" if len(text) >= _SHORT else "****"
