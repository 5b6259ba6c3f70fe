"""Targets of their own, read on demand: the body of a skill, the rules of a directory."""

from halo.compiler.assemble import Compiled, Offer, assemble
from halo.compiler.identity import user_names
from halo.compiler.pieces import Part, Piece
from halo.compiler.placeholders import Placeholders
from halo.compiler.rules import chain_pieces
from halo.errors import UnknownNameError
from halo.files.tree import Tree
from halo.records.artifacts import SkillRef
from halo.records.diagnostics import Diagnostic
from halo.records.targets import ScopeTarget, SkillTarget
from halo.workspace.layers import directory_layers, user_layer
from halo.workspace.settings.disabling import refuse_disabled
from halo.workspace.settings.general import read_general
from halo.workspace.skills.oddities import oddities_of, without_description
from halo.workspace.skills.reading import Skill, list_resources, read_skill, read_skill_text

# Who activates it, with what, and from where: known only to the session.
_SESSION = frozenset({"args", "agent_name"})


def compile_skill(tree: Tree, target: SkillTarget) -> Compiled:
    """Compile what `activate_skill` returns: title, body, and where its other files are."""
    skill = read_skill(tree, target.id)
    refuse_disabled(read_general(tree), "skills", skill.id, skill.scope)
    diagnostics: list[Diagnostic] = []
    placeholders = Placeholders(
        tree,
        known=user_names(user_layer(tree)),
        session=_SESSION,
        namespaces=frozenset({skill.id}),
        own=skill.id,
        say=diagnostics.append,
    )
    layer, remarks = read_skill_text(tree, skill)
    diagnostics += [*without_description(skill), *remarks, *oddities_of(tree, skill)]
    pieces = [Piece(f"# Skill: {skill.name}", skill.source, skill.name_line)]
    if layer.body:
        pieces += [Piece("\n\n", layer.source, layer.line), *placeholders.render(layer)]
    parts = [Part("skill", "skill", skill.scope, skill.source, tuple(pieces), hides=skill.hides)]
    resources = _resources(tree, skill, diagnostics)
    if resources is not None:
        parts.append(resources)
    offer = Offer(skills=(SkillRef(skill.id, skill.name, skill.description, skill.scope),))
    return assemble(target, parts, offer, tuple(diagnostics))


def resource_address(skill: Skill, name: str) -> str:
    """Say how tools reach a skill's file: by its path in the workspace, else as `skill:<id>/<name>`."""
    if skill.scope == "workspace":
        return f"{skill.folder.removeprefix('workspace:')}/{name}"
    return f"skill:{skill.id}/{name}"


def _resources(tree: Tree, skill: Skill, diagnostics: list[Diagnostic]) -> Part | None:
    names, more = list_resources(tree, skill.folder)
    if more:
        diagnostics.append(
            Diagnostic(
                "skill-resources",
                "warning",
                "more than 200 files or 1,000 folders; the first files are listed",
                skill.folder,
            )
        )
    if not names:
        return None
    pieces = [Piece("Files of this skill, to read when the text above asks for them:", skill.source, 1)]
    pieces += [Piece(f"\n- {resource_address(skill, name)}", f"{skill.folder}/{name}", 1) for name in names]
    return Part("resources", "resources", skill.scope, skill.folder, tuple(pieces))


def compile_scope(tree: Tree, target: ScopeTarget) -> Compiled:
    """Compile the rules of a directory: the chain from below the root down to it."""
    chain = directory_layers(tree, target.directory)
    if not chain:
        raise UnknownNameError(
            f"no .halo/INSTRUCTIONS.md on the way to {target.directory!r}",
            hint="rules of the root are in every prompt already",
        )
    last = chain[-1][1]
    part = Part("directory", "instructions", "workspace", last.source, tuple(chain_pieces(chain)))
    return assemble(target, [part], Offer(), ())
