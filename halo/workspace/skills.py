"""Skills: what SKILL.md says of itself, and the other files of its folder."""

from typing import Any

import msgspec

from halo.errors import LayerError
from halo.files.tree import NotFound, Tree
from halo.records.artifacts import Scope
from halo.workspace.ids import list_ids, serving_folder
from halo.workspace.layers import one_line, read_front_matter


class Skill(msgspec.Struct, frozen=True):
    """What a skill says of itself; its body is read by who activates it.

    `source` is its SKILL.md; the lines are those of its name and description there.
    """

    id: str
    scope: Scope
    folder: str
    source: str
    name: str
    description: str
    name_line: int
    description_line: int
    hides: tuple[str, ...] = ()


def list_skills(tree: Tree) -> list[str]:
    """List the ids of all skills, sorted."""
    return list_ids(tree, "skills")


def read_skill(tree: Tree, skill_id: str) -> Skill:
    """Read the front matter of the SKILL.md that serves `skill_id`, and nothing else of it.

    An agent that lists a skill must not become stale when the skill's body is edited. Raises
    `UnknownNameError` for an unknown skill, `LayerError` for one without a SKILL.md or with broken front
    matter.
    """
    served = serving_folder(tree, "skills", skill_id)
    source = f"{served.folder}/SKILL.md"
    try:
        front = read_front_matter(tree, source)
    except NotFound:
        raise LayerError(f"skill {skill_id!r} has no SKILL.md", file=source) from None
    values = front.value if front is not None else {}
    return Skill(
        skill_id,
        served.scope,
        served.folder,
        source,
        name=_line(values.get("name")) or skill_id,
        description=_line(values.get("description")),
        name_line=front.line("name") if front is not None else 1,
        description_line=front.line("description") if front is not None else 1,
        hides=served.hides,
    )


def _line(value: Any) -> str:
    return one_line(str(value)) if value is not None else ""


# A skill folder is read to its end, but a runaway one must not be.
_MOST_RESOURCES = 200


def list_resources(tree: Tree, folder: str) -> tuple[tuple[str, ...], bool]:
    """List the other files of a skill, relative to its folder, sorted; hidden ones and links are left out.

    Returns the names, and whether there were more than 200.
    """
    found: list[str] = []
    pending = [""]
    while pending:
        relative = pending.pop()
        for entry in tree.list(f"{folder}/{relative}" if relative else folder):
            name = f"{relative}/{entry.name}" if relative else entry.name
            if entry.name.startswith(".") or entry.name == "__pycache__" or entry.link:
                continue
            if entry.kind == "dir":
                pending.append(name)
            elif entry.kind == "file" and name not in ("SKILL.md", "config.yaml"):
                found.append(name)
        if len(found) > _MOST_RESOURCES:
            break
    found.sort()
    return tuple(found[:_MOST_RESOURCES]), len(found) > _MOST_RESOURCES
