"""What a workspace holds that no target can use: said by `halo build`, never swallowed."""

from halo.files.tree import Tree, problems_of
from halo.records.diagnostics import Diagnostic
from halo.records.targets import RESERVED_AGENT_IDS
from halo.workspace.directories import Directories
from halo.workspace.ids import entries_of, is_usable, kind_or_other, shelves, unusable_ids

# Something else in their place would be as if nothing were there.
_FOLDERS = tuple(
    f"{root}{name}"
    for root in ("workspace:.halo/", "global:")
    for name in ("agents", "skills", "prompts", "models")
)


def find_oddities(tree: Tree, directories: Directories) -> tuple[Diagnostic, ...]:
    """Collect remarks after a survey of `tree`, in which `directories` were found."""
    found = [
        Diagnostic("unusable-name", "warning", _unusable(folder, name), folder)
        for folder, name in unusable_ids(tree)
    ]
    found += [Diagnostic("unusable-name", "warning", p.message, p.path) for p in problems_of(tree)]
    found += [
        Diagnostic("closed-directory", "warning", f"rules in it are not seen: {why}", path)
        for path, why in directories.closed
    ]
    found += [
        Diagnostic("closed-directory", "warning", "nothing is taken from here: it is no folder", path)
        for path in (*_FOLDERS, *_agents_elsewhere(tree))
        if kind_or_other(tree, path) in ("file", "other")
    ]
    if not directories.complete:
        found.append(
            Diagnostic(
                "too-many-directories",
                "warning",
                "more than 20,000 directories; rules in those beyond are not compiled ahead of time",
                "workspace:",
            )
        )
    return tuple(found)


def _agents_elsewhere(tree: Tree) -> list[str]:
    """List what stands where a folder of an agent may, and is a link out of its root or no folder at all.

    Files among the agents are nobody's mistake, and of skills it is said where they are read.
    """
    return [
        shelf.path(entry.name)
        for shelf in shelves(tree, "agents")
        for entry in entries_of(tree, shelf)
        if entry.kind == "other" and is_usable("agents", entry.name)
    ]


def _unusable(folder: str, name: str) -> str:
    if name in RESERVED_AGENT_IDS:
        return f"an agent cannot be called {name!r}"
    return f"{name!r} is not a name for {folder.rsplit('/', 1)[-1]}: letters, digits, _ and - only"
