"""What the settings switch off: an agent or a skill that is disabled is hidden and refused everywhere."""

from typing import Literal

from halo.errors import TreeError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import Scope
from halo.workspace.ids import Shelf, is_id, list_ids, serving_folder, shelves
from halo.workspace.settings.general import General

Kind = Literal["agents", "skills"]


def is_disabled(general: General, kind: Kind, name: str, scope: Scope) -> bool:
    """Tell whether `name`, as `scope` serves it, is switched off.

    An entry `name` is about whoever serves it; `global:name` is about the global folder's alone, so that a
    workspace's own of that name stays.
    """
    entries = general.disabled.agents if kind == "agents" else general.disabled.skills
    return name in entries or f"{scope}:{name}" in entries


def refuse_disabled(general: General, kind: Kind, name: str, scope: Scope) -> None:
    """Raise `UsageError` for what is switched off."""
    if is_disabled(general, kind, name, scope):
        word = kind.removesuffix("s")
        raise UsageError(f"the {word} {name!r} is disabled here", hint=f"halo {word} enable {name}")


def list_enabled(tree: Tree, general: General, kind: Kind) -> list[str]:
    """List the ids of all agents or skills that are not switched off, sorted."""
    names = list_ids(tree, kind)
    entries = general.disabled.agents if kind == "agents" else general.disabled.skills
    if not entries:
        return names
    known = shelves(tree, kind)
    return [name for name in names if _is_listed(tree, general, kind, name, known)]


def _is_listed(tree: Tree, general: General, kind: Kind, name: str, known: tuple[Shelf, ...]) -> bool:
    try:
        scope = serving_folder(tree, kind, name, known).scope
    except TreeError:
        return True  # whoever compiles it says what stands in its place
    return not is_disabled(general, kind, name, scope)


def parse_entry(text: str) -> tuple[str, str]:
    """Split `scope:id` or `id` into scope (empty for any) and id. Raises `UsageError`."""
    scope, colon, name = text.rpartition(":")
    if (colon and scope not in ("workspace", "global", "builtin")) or not is_id(name):
        raise UsageError(
            f"{text!r} names no agent or skill", hint="an id, or workspace:id, global:id, builtin:id"
        )
    return scope, name
