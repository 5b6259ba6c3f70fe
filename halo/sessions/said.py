"""What a user says, and what the model is given of it: rules of directories, an invoked skill, the text."""

from collections.abc import Callable, Mapping

import msgspec

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.events import MessageAdded
from halo.records.messages import user
from halo.records.targets import SkillTarget, Target
from halo.runner.slots import fill
from halo.sessions.scopes import expand_scopes
from halo.sessions.slash import read_slash, skill_block
from halo.sessions.values import argument_values, takes_arguments
from halo.workspace.ids import folders_of


class Invoked(msgspec.Struct, frozen=True):
    """A skill that the message invokes."""

    id: str
    artifact: Artifact
    arguments: str

    def text(self, values: Mapping[str, str]) -> str:
        """Return its text with `values` and the arguments in its slots.

        Arguments that it has no place for follow behind it, as the user's own words.
        """
        filled = fill(self.artifact, {**values, **argument_values(self.arguments)}).text
        block = skill_block(self.id, filled)
        left = self.arguments and not takes_arguments(self.artifact)
        return f"{block}\n\n{self.arguments}" if left else block


class Said(msgspec.Struct, frozen=True):
    """A message as it was read, before the turn starts.

    `scopes` maps directories to the ids of the artifacts that their rules come from.
    """

    typed: str
    text: str
    blocks: tuple[str, ...] = ()
    scopes: dict[str, str] = {}
    skill: Invoked | None = None
    notices: tuple[str, ...] = ()

    def message(self, values: Mapping[str, str]) -> MessageAdded:
        """Make the record of it, with `values` in the slots of an invoked skill."""
        text = self.skill.text(values) if self.skill is not None else self.text
        given = "\n\n".join(part for part in (*self.blocks, text) if part)
        return MessageAdded(user(given), typed="" if given == self.typed else self.typed)


def read_message(
    typed: str,
    artifact: Artifact,
    workspace: str,
    tree: Tree,
    get: Callable[[Target], Artifact],
    bundled: frozenset[str] = frozenset(),
) -> Said:
    """Read what the user typed to the agent of `artifact`.

    Markers first, then a slash at the beginning of the rest: what is put in is never looked at. Raises
    `UsageError` for a skill that is refused, and for a message of markers that lead to nothing.
    """
    scoped = expand_scopes(typed, workspace, tree, get, bundled)
    slash = read_slash(scoped.text, artifact.manifest.commands, lambda name: _is_skill(tree, name))
    invoked = Invoked(slash.skill, get(SkillTarget(slash.skill)), slash.arguments) if slash.skill else None
    notices = [f"warning: {problem}" for problem in scoped.problems]
    if slash.remark:
        notices.append(slash.remark)
    return Said(typed, scoped.text, scoped.blocks, scoped.artifacts, invoked, tuple(notices))


def _is_skill(tree: Tree, name: str) -> bool:
    """Tell whether there is a skill `name`. It is for a remark alone: nothing in the layers stops a turn."""
    try:
        return bool(folders_of(tree, "skills", name))
    except HaloError:
        return False
