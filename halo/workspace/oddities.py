"""What a workspace holds that no target can use: said by `halo build`, never swallowed."""

from halo.files.tree import Tree, problems_of
from halo.records.diagnostics import Diagnostic
from halo.workspace.ids import unusable_ids


def find_oddities(tree: Tree, *, complete: bool) -> tuple[Diagnostic, ...]:
    """Collect remarks after a survey of `tree`; `complete` says that all its directories were looked at."""
    found = [
        Diagnostic(
            "unusable-name", "warning", f"{name!r} is not a name: letters, digits, _ and - only", folder
        )
        for folder, name in unusable_ids(tree)
    ]
    found += [Diagnostic("unusable-name", "warning", p.message, p.path) for p in problems_of(tree)]
    if not complete:
        found.append(
            Diagnostic(
                "too-many-directories",
                "warning",
                "more than 20,000 directories; rules in those beyond are not compiled ahead of time",
                "workspace:",
            )
        )
    return tuple(found)
