"""Personas: installed code that may replace context files (entry points of the group `halo.personas`).

A workspace only names one; it runs nothing that the user has not installed. What a persona is (its package,
version, entry point and the `identity` that it gives itself) is an input of every artifact that it had a part
in.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from halo.errors import LayerError, UnknownNameError
from halo.files.canonical import canonical_json, canonical_text
from halo.files.digests import sha256
from halo.files.tree import Input, Tree, note

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "halo.personas"

# Installed hooks are no files of a root: this is how their inputs and the spans of their text are written.
HOOK = "hook:"


class Persona(Protocol):
    """What an entry point leads to: such an object, or a class of them that is called without arguments.

    `identity` is to change whenever `replace` may answer differently with the same version of its package.
    `replace` is pure: the same name and text give the same answer, on any machine.
    """

    identity: str

    def replace(self, name: str, text: str) -> str | None:
        """Return what stands in the place of the context file `name`.

        `text` is its text without front matter, empty where there is no such file. None leaves it as it is,
        an empty text takes it out of the prompt.
        """
        ...


class Hook(NamedTuple):
    """A loaded persona. `path` is written like a tree path; `identity` is what an input is a digest of."""

    path: str
    identity: bytes
    replace: Callable[[str, str], str | None]


def consult_persona(tree: Tree, name: str) -> Hook:
    """Load the persona `name` and record it as an input.

    Raises `UnknownNameError` with near misses, `LayerError` for one that cannot be used.
    """
    hook = _load(name, tuple(sys.path))
    note(tree, hook.path, hook.identity)
    return hook


def observe_persona(known: Input) -> Input:
    """Look at the persona of an input again. Raises `HaloError` when there is none any more."""
    hook = _load(known.path.removeprefix(f"{HOOK}{GROUP}/"), tuple(sys.path))
    return Input(known.path, "file", sha256(hook.identity), None)


def replaced(hook: Hook, name: str, text: str) -> str | None:
    """Ask the persona for the text of a context file, in canonical form."""
    try:
        answer = hook.replace(name, text)
    except Exception as error:  # whatever foreign code raises is told as its mistake
        raise _unusable(hook.path, f"it failed at {name}: {type(error).__name__}: {error}") from error
    if answer is None:
        return None
    if not isinstance(answer, str):
        raise _unusable(hook.path, f"its answer for {name} is no text, but of type {type(answer).__name__}")
    try:
        return canonical_text(answer.encode(), hook.path)
    except UnicodeEncodeError:
        raise _unusable(hook.path, f"its answer for {name} holds a lone surrogate") from None


@lru_cache(maxsize=16)
def _load(name: str, where: tuple[str, ...]) -> Hook:
    """Find and load a persona. `where` is the module search path: another one may hold other packages."""
    del where
    from importlib.metadata import entry_points

    installed = entry_points(group=GROUP)
    found = [point for point in installed if point.name == name]
    if not found:
        raise UnknownNameError.of("persona", name, sorted({point.name for point in installed}))
    path = f"{HOOK}{GROUP}/{name}"
    if len(found) > 1:
        packages = ", ".join(sorted(_package(point)[0] for point in found))
        raise _unusable(path, f"more than one package offers it: {packages}", hint="uninstall all but one")
    (point,) = found
    persona = _imported(point, path)
    replace, own = getattr(persona, "replace", None), getattr(persona, "identity", None)
    if not callable(replace) or not isinstance(own, str):
        raise _unusable(path, f"{point.value} has no text `identity` and no method `replace(name, text)`")
    distribution, version = _package(point)
    identity = {
        "distribution": distribution,
        "version": version,
        "entry_point": point.name,
        "value": point.value,
        "identity": own,
    }
    return Hook(path, canonical_json(identity), replace)


def _imported(point: "EntryPoint", path: str) -> object:
    try:
        loaded: object = point.load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # whatever foreign code raises is told as its mistake
        raise _unusable(path, f"{point.value} cannot be loaded: {type(error).__name__}: {error}") from error


def _package(point: "EntryPoint") -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist is not None else ("", "")


def _unusable(path: str, why: str, *, hint: str | None = None) -> LayerError:
    return LayerError(
        f"this persona cannot be used: {why}", file=path, hint=hint or "repair or reinstall its package"
    )
