"""Skills: SKILL.md, its resources, and the parameters that config.yaml declares."""

from typing import Any, Literal

import msgspec

from halo.errors import LayerError
from halo.files.canonical import canonical_text
from halo.files.tree import NotFound, Tree
from halo.records.artifacts import Scope
from halo.workspace.ids import list_ids, serving_folder
from halo.workspace.layers import Layer, read_layer
from halo.workspace.yamldoc import YamlDocument, convert, load_yaml


class ParamDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `params:` or `secrets:` in config.yaml.

    `secret: true` keeps a value out of every text; `secret: false` lets one that holds `<<ENV>>` in.
    """

    key: str
    type: Literal["string", "int", "float", "boolean", "enum"] = "string"
    description: str = ""
    options: tuple[str, ...] = ()
    default: str | int | float | bool | None = None
    secret: bool | None = None


class SkillConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """config.yaml of a skill."""

    description: str = ""
    params: tuple[ParamDeclaration, ...] = ()
    secrets: tuple[ParamDeclaration, ...] = ()


class Skill(msgspec.Struct, frozen=True):
    """A skill as its folder defines it."""

    id: str
    scope: Scope
    folder: str
    layer: Layer
    name: str
    description: str


_NO_CONFIG = SkillConfig()


def list_skills(tree: Tree) -> list[str]:
    """List the ids of all skills, sorted."""
    return list_ids(tree, "skills")


def read_skill(tree: Tree, skill_id: str) -> Skill:
    """Read the SKILL.md of the folder that serves `skill_id`.

    Raises `UnknownNameError` for an unknown skill, `LayerError` for one without a SKILL.md or with broken
    front matter.
    """
    folder, scope = serving_folder(tree, "skills", skill_id)
    source = f"{folder}/SKILL.md"
    layer = read_layer(tree, source, scope)
    if layer is None:
        raise LayerError(f"skill {skill_id!r} has no SKILL.md, or an empty one", file=source)
    return Skill(
        skill_id,
        scope,
        folder,
        layer,
        name=_line(layer.value("name")) or skill_id,
        description=_line(layer.value("description")),
    )


def _line(value: Any) -> str:
    return " ".join(str(value).split()) if value is not None else ""


class SkillParams(msgspec.Struct, frozen=True):
    """The declared parameters by key, with the document that knows their lines."""

    declared: dict[str, ParamDeclaration]
    secret: frozenset[str] = frozenset()
    document: YamlDocument | None = None

    def is_secret(self, key: str) -> bool:
        """Tell whether the dotted `key`, or a map that holds it, is declared a secret.

        That is `secret: true` among the params, or any entry of `secrets:`, wherever its value stands.
        """
        parts = key.split(".")
        return any(".".join(parts[: i + 1]) in self.secret for i in range(len(parts)))


def read_params(tree: Tree, folder: str) -> SkillParams:
    """Read the declarations in the folder's config.yaml; none when the file is absent."""
    source = f"{folder}/config.yaml"
    try:
        text = canonical_text(tree.read(source), source)
    except NotFound:
        return SkillParams({})
    document = load_yaml(text, source)
    config = convert(document, SkillConfig, empty=_NO_CONFIG)
    secret = {p.key for p in config.params if p.secret} | {p.key for p in config.secrets}
    return SkillParams({p.key: p for p in config.params}, frozenset(secret), document)


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
