"""The instruction files of other tools: which of them a prompt has, in which order, and with which text.

From broad to specific: the workspace's root, then each directory on the way to the working directory; at each
place AGENTS.md, CLAUDE.md, GEMINI.md, the rules of Cursor, those of Copilot. Nothing is looked at that the
settings do not name.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.instructions.account import Account
from halo.workspace.instructions.folders import (
    CLAUDE_RULES,
    COPILOT_RULES,
    CURSOR_RULES,
    RuleFolder,
    read_rules,
)
from halo.workspace.instructions.foreign import folder_of, read_foreign, shown
from halo.workspace.instructions.imports import Importer, unexpanded
from halo.workspace.instructions.remarks import duplicate, exported, limit, pointless, unreadable
from halo.workspace.instructions.weaving import Run
from halo.workspace.layers import Layer
from halo.workspace.settings.general import InstructionFiles


class Instruction(NamedTuple):
    """A file for the prompt: its path in the workspace, and its text in runs that lead to their files."""

    layer: Layer
    name: str
    runs: tuple[Run, ...]


class Instructions(NamedTuple):
    """The files in order, and what there is to say of those that were left out."""

    files: tuple[Instruction, ...]
    diagnostics: tuple[Diagnostic, ...]


class _Candidate(NamedTuple):
    """A file that was read. `imports`: references in it are followed."""

    layer: Layer
    imports: bool


def read_instructions(
    tree: Tree, directory: str, chosen: InstructionFiles, own: Iterable[Layer]
) -> Instructions:
    """Read the files that `chosen` names for a directory; `own` are the layers that the prompt has."""
    account = Account(own)
    reader = _Reader(tree, chosen, account)
    candidates = reader.collect(directory)
    say = reader.said.append
    importer = Importer(tree, account, say)
    files: list[Instruction] = []
    for layer, imports in candidates:
        holder = account.holder(layer)
        account.note(layer)
        found = importer.expand(layer) if imports else unexpanded(layer)
        if holder and not found.brought:
            say(duplicate(layer, holder, layer.source))
        elif found.bare:
            say(pointless(layer.source))
        else:
            files.append(Instruction(layer, shown(layer.source), found.runs))
    return Instructions(tuple(files), tuple(reader.said))


class _Reader:
    """Reads the files as long as there is room, and keeps what there is to say."""

    def __init__(self, tree: Tree, chosen: InstructionFiles, account: Account) -> None:
        self._tree = tree
        self._chosen = chosen
        self._account = account
        self.said: list[Diagnostic] = []

    def collect(self, directory: str) -> list[_Candidate]:
        """Read the files for a directory in order. Of equal texts in one folder the first stays.

        It gets the imports of the other: AGENTS.md is often a link to CLAUDE.md.
        """
        parts = directory.split("/") if directory else []
        levels = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
        agents_md = self._agents_md(levels)
        found: dict[tuple[str, str], _Candidate] = {}
        for level in levels:
            for new in (*agents_md.get(level, ()), *self._others(level)):
                first = found.setdefault((folder_of(new.layer.source), new.layer.body), new)
                if first is not new:
                    self.said.append(duplicate(new.layer, first.layer.source, new.layer.source))
                    if new.imports:
                        found[folder_of(new.layer.source), new.layer.body] = first._replace(imports=True)
        return list(found.values())

    def _agents_md(self, levels: list[str]) -> dict[str, list[_Candidate]]:
        """Read AGENTS.md of every directory on the way, or of the nearest that has one."""
        found: dict[str, list[_Candidate]] = {}
        if self._chosen.agents_md == "off":
            return found
        nearest = self._chosen.agents_md == "nearest"
        for level in reversed(levels) if nearest else levels:
            found[level] = list(self._read(_below(level, "AGENTS.md")))
            if nearest and found[level]:
                break
        return found

    def _others(self, level: str) -> Iterator[_Candidate]:
        """Read the other files of one directory; folders of rules count in the root alone."""
        chosen = self._chosen
        if chosen.claude_md:
            yield from self._read(_below(level, "CLAUDE.md"), imports=True)
            yield from self._read(_below(level, ".claude/CLAUDE.md"), imports=True)
        if chosen.claude_md and not level:
            yield from self._rules(CLAUDE_RULES, imports=True)
        if chosen.gemini_md:
            yield from self._read(_below(level, "GEMINI.md"), imports=True)
        if chosen.cursor_rules and not level:
            yield from self._read("workspace:.cursorrules")
            yield from self._rules(CURSOR_RULES)
        if chosen.copilot and not level:
            yield from self._read("workspace:.github/copilot-instructions.md")
            yield from self._rules(COPILOT_RULES)

    def _rules(self, folder: RuleFolder, *, imports: bool = False) -> Iterator[_Candidate]:
        rules = read_rules(self._tree, folder)
        self.said += rules.diagnostics
        for source in rules.always:
            yield from self._read(source, imports=imports)

    def _read(self, source: str, *, imports: bool = False) -> Iterator[_Candidate]:
        """Read one file, if it is there, is somebody else's and fits."""
        try:
            found = read_foreign(self._tree, source)
        except HaloError as error:
            self.said.append(unreadable(error, source))
            return
        if found is None:
            return
        if found.state != "foreign":
            self.said.append(exported(found, source))
        elif not self._account.take(found.layer):
            self.said.append(limit("left out: there is no room for it", source))
        else:
            yield _Candidate(found.layer, imports)


def _below(level: str, name: str) -> str:
    return f"workspace:{level}/{name}" if level else f"workspace:{name}"
