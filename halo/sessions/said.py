"""What a user says, and what the model is given of it: rules of directories, an invoked skill, the text."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.events import MessageAdded
from halo.records.incoming import Incoming, Source
from halo.records.messages import user
from halo.records.targets import SkillTarget, Target
from halo.runner.slots import fill
from halo.sessions.headings import heading
from halo.sessions.scopes import expand_scopes
from halo.sessions.slash import read_slash, skill_block
from halo.sessions.typed_files import Attached, Shelf, expand_files
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

    def given(self, values: Mapping[str, str]) -> str:
        """Return what the model is given of it, with `values` in the slots of an invoked skill."""
        text = self.skill.text(values) if self.skill is not None else self.text
        return "\n\n".join(part for part in (*self.blocks, text) if part)


def message_of(incoming: Sequence[Incoming], said: Sequence[Said], values: Mapping[str, str]) -> MessageAdded:
    """Make the record of messages that are taken together, each headed by who sent it."""
    headings = [heading(message.sender) for message in incoming]
    given = _joined(headings, [each.given(values) for each in said])
    typed = _joined(headings, [each.typed for each in said])
    sources = tuple(
        Source(message.id, message.sender, message.rounds, message.origin) for message in incoming
    )
    return MessageAdded(
        user(given),
        typed="" if given == typed else typed,
        sources=sources,
        internal=all(message.sender.kind == "internal" for message in incoming),
    )


def _joined(headings: list[str], texts: list[str]) -> str:
    return "\n\n".join(
        f"{head}\n{text}" if head else text for head, text in zip(headings, texts, strict=True)
    )


def read_message(
    typed: str,
    artifact: Artifact,
    workspace: str,
    tree: Tree,
    get: Callable[[Target], Artifact],
    bundled: frozenset[str] = frozenset(),
    shelf: Shelf | None = None,
) -> Said:
    """Read what the user typed to the agent of `artifact`.

    Markers first, then a slash at the beginning of the rest: what is put in is never looked at. `shelf` has
    the files that this user may name, None for one who may not. Raises `UsageError` for a skill that is
    refused, and for a message of markers that lead to nothing.
    """
    scoped = expand_scopes(typed, workspace, tree, get, bundled)
    files = expand_files(scoped.text, shelf) if shelf is not None else Attached(scoped.text)
    slash = read_slash(files.text, artifact.manifest.commands, lambda name: _is_skill(tree, name))
    invoked = Invoked(slash.skill, get(SkillTarget(slash.skill)), slash.arguments) if slash.skill else None
    notices = [f"warning: {problem}" for problem in (*scoped.problems, *files.problems)]
    if slash.remark:
        notices.append(slash.remark)
    blocks = (*scoped.blocks, *files.blocks)
    return Said(typed, files.text, blocks, scoped.artifacts, invoked, tuple(notices))


def _is_skill(tree: Tree, name: str) -> bool:
    """Tell whether there is a skill `name`. It is for a remark alone: nothing in the layers stops a turn."""
    try:
        return bool(folders_of(tree, "skills", name))
    except HaloError:
        return False
