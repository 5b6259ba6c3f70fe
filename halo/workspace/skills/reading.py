"""Skills: what SKILL.md says of itself, its text, and the other files of its folder."""

from typing import NamedTuple

import msgspec

from halo.errors import LayerError
from halo.files.tree import NotFound, Tree, read_part
from halo.records.artifacts import Scope
from halo.records.diagnostics import Diagnostic
from halo.records.targets import Access
from halo.workspace.ids import Shelf, serving_folder, skill_file
from halo.workspace.layers import Layer, unusable
from halo.workspace.skills.fields import SkillFields, skill_fields
from halo.workspace.skills.front import SkillFile, read_skill_file


class Skill(msgspec.Struct, frozen=True):
    """What a skill says of itself; its body is read by who activates it.

    `source` is its SKILL.md; the lines are those of its name and description there. `requires_access` is the
    least access level at which it may be used; `model_invocable` and `user_invocable` say who may activate
    it; `allowed_tools` are those that it names.
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
    requires_access: Access = "readonly"
    model_invocable: bool = True
    user_invocable: bool = True
    allowed_tools: tuple[str, ...] = ()


# The part of a SKILL.md that says what it is; who lists a skill looks at nothing else.
FRONT_MATTER = "front-matter"


def front_matter(data: bytes) -> bytes:
    """Return what the front matter of a SKILL.md says, as JSON of `SkillFields`."""
    return msgspec.json.encode(skill_fields(read_skill_file(data))[0])


def read_skill(
    tree: Tree, skill_id: str, on: tuple[Shelf, ...] | None = None, *, hides: bool = True
) -> Skill:
    """Read the front matter of the SKILL.md that serves `skill_id`; `on` and `hides` as in `serving_folder`.

    An agent that lists a skill must not become stale when the skill's body is edited. Raises
    `UnknownNameError` for an unknown skill, `LayerError` for one without a SKILL.md, `TreeError` for one that
    cannot be read. What stands in the file is no reason to fail.
    """
    served = serving_folder(tree, "skills", skill_id, on, hides=hides)
    file = skill_file(tree, served.folder)
    source = f"{served.folder}/{file or 'SKILL.md'}"
    try:
        fields = msgspec.json.decode(read_part(tree, source, FRONT_MATTER, front_matter), type=SkillFields)
    except NotFound:
        if file is not None:
            raise unusable(source) from None
        raise LayerError(f"skill {skill_id!r} has no SKILL.md", file=source) from None
    return Skill(
        skill_id,
        served.scope,
        served.folder,
        source,
        name=fields.name or skill_id,
        description=fields.description,
        name_line=fields.name_line,
        description_line=fields.description_line,
        hides=served.hides,
        requires_access=fields.requires_access,
        model_invocable=fields.model_invocable,
        user_invocable=fields.user_invocable,
        allowed_tools=fields.allowed_tools,
    )


class SkillText(NamedTuple):
    """The body of a skill, and what had to be read in another way than it is written."""

    layer: Layer
    remarks: tuple[Diagnostic, ...]


def read_skill_text(tree: Tree, skill: Skill) -> SkillText:
    """Read the body of a skill. Raises `TreeError` when it cannot be read."""
    file = read_skill_file(tree.read(skill.source))
    return SkillText(Layer(skill.source, skill.scope, file.body, file.line), remarks_on(file, skill.source))


def remarks_on(file: SkillFile, source: str) -> tuple[Diagnostic, ...]:
    """Say what had to be read in another way than it is written."""
    found = sorted((*file.remarks, *skill_fields(file)[1]))
    return tuple(Diagnostic("skill-front-matter", "warning", r.message, source, r.line) for r in found)


# A skill folder is read to its end, but a runaway one must not be.
_MOST_RESOURCES = 200
_MOST_FOLDERS = 1_000  # folders may be without files, and in git they take no room


def list_resources(tree: Tree, folder: str) -> tuple[tuple[str, ...], bool]:
    """List the other files of a skill, relative to its folder, sorted; hidden ones and links are left out.

    Returns the names, and whether that is not all: there were more than 200, or more than 1,000 folders.
    """
    found: list[str] = []
    pending = [""]
    looked_into = 0
    while pending:
        relative = pending.pop()
        looked_into += 1
        for entry in tree.list(f"{folder}/{relative}" if relative else folder):
            name = f"{relative}/{entry.name}" if relative else entry.name
            if entry.name.startswith(".") or entry.name == "__pycache__" or entry.link:
                continue
            if entry.kind == "dir":
                pending.append(name)
            elif entry.kind == "file" and name.lower() != "skill.md" and name != "config.yaml":
                found.append(name)
        if len(found) > _MOST_RESOURCES or looked_into >= _MOST_FOLDERS:
            break
    found.sort()
    return tuple(found[:_MOST_RESOURCES]), len(found) > _MOST_RESOURCES or bool(pending)
