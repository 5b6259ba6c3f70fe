"""Our layers as AGENTS.md, for tools that know nothing of Halo: one for the root, one a directory with rules.

What any of them may know is in it: instructions, what the project knows, where procedures are. Who the user
is, who the agents are and how Halo's own tools are used is not.
"""

from collections.abc import Iterable, Iterator

from halo.compiler.pieces import verbatim, without_suppressions
from halo.files.tree import Tree
from halo.workspace.instructions.mark import with_mark
from halo.workspace.layers import Layer, directory_layers, index_layer, instructions_layer
from halo.workspace.settings.disabling import list_enabled
from halo.workspace.settings.general import read_general
from halo.workspace.skills.reading import read_skill

NAME = "AGENTS.md"

_SKILLS = """\
## Skills

Procedures for tasks that come up again. Read the file before you do what it is for:

"""


def agents_md_files(tree: Tree, directories: Iterable[str]) -> dict[str, str]:
    """Write the files by their paths in the workspace; `directories` are those with rules.

    A tree without the global folder leaves its layers out. Raises `HaloError` for a broken layer.
    """
    texts = {NAME: _root(tree)} | {f"{path}/{NAME}": _rules_of(tree, path) for path in directories}
    return {path: with_mark(f"{text}\n") for path, text in texts.items() if text}


def _root(tree: Tree) -> str:
    instructions, index = instructions_layer(tree), index_layer(tree)
    blocks = []
    if instructions is not None and instructions.body:
        blocks.append(_text(instructions))
    if index is not None and index.body:
        blocks.append(f"## Project Knowledge\n\n{_text(index)}")
    if skills := "\n".join(_skills(tree)):
        blocks.append(_SKILLS + skills)
    return "\n\n".join(blocks)


def _rules_of(tree: Tree, directory: str) -> str:
    """Return a directory's own rules: who reads AGENTS.md reads those above as well."""
    return "".join(_text(layer) for path, layer in directory_layers(tree, directory) if path == directory)


def _skills(tree: Tree) -> Iterator[str]:
    """Name the skills of the workspace that a model may use."""
    for name in list_enabled(tree, read_general(tree), "skills"):
        skill = read_skill(tree, name)
        if skill.scope == "workspace" and skill.model_invocable:
            path = skill.source.removeprefix("workspace:")
            yield f"- `{path}`: {skill.description}" if skill.description else f"- `{path}`"


def _text(layer: Layer) -> str:
    return "".join(piece.text for piece in without_suppressions([verbatim(layer)])).strip()
