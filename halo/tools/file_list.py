"""`file_list`: what is in a folder."""

from collections.abc import Mapping
from typing import Any

from halo.files.roots import Found
from halo.tools.base import Page, Surroundings
from halo.tools.paths import Place, list_folder, locate
from halo.tools.walking import Walk, unread_note

_MOST = 500
_SKIPPED = frozenset({".git", ".halo", "node_modules"})  # in a recursive listing


def file_list(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """List a folder; folders end in a slash. Recursive: everything below, at most 500 entries.

    Entries are named from the workspace root (or `skill:<id>/`), as they can be given to a tool again.
    """
    top = locate(arguments.get("path", "."), around)
    page = Page()
    if not arguments.get("recursive"):
        entries = list_folder(top)
        for found in entries:
            if not page.add(_line(top.below(found.name), found)):
                page.lines.append(
                    f"... {len(entries) - len(page.lines)} more entries; their names do not fit"
                )
                break
        return "\n".join(page.lines) or "(empty)"
    walk = Walk(top, _SKIPPED)
    notes: list[str] = []
    for place, found in walk:
        if len(page.lines) == _MOST or not page.add(_line(place, found)):
            notes = [f"... more than {len(page.lines)} entries; list a folder further down"]
            break
    return "\n".join([*page.lines, *notes, *unread_note(walk.unread)]) or "(empty)"


def _line(place: Place, found: Found) -> str:
    return place.shown + ("/" if found.kind == "dir" else "")
