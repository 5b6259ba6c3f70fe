"""Everything below a folder, however bad some of it is."""

from collections.abc import Callable, Iterator

from halo.files.roots import Found
from halo.tools.base import ToolFailure
from halo.tools.paths import Place, list_folder, real_place

# Folders of tools and of others' code, which searches leave out unless they start there.
SKIPPED = frozenset({".git", ".halo", "node_modules", ".next", "dist", "__pycache__", ".venv"})


class Walk:
    """Walks a folder depth first, by name; links are not entered, for they may lead back up.

    A failure of the named top is the model's to mend (`ToolFailure`). Below it one unreadable folder, or one
    that vanishes meanwhile, must not cost the rest: it is skipped and counted in `unread`. Folders named in
    `skipped` and those kept from models are yielded and not entered; `enters`, if given, decides in the place
    of `skipped`. No recursion: folders may be nested deeper than Python's stack.
    """

    def __init__(
        self,
        top: Place,
        skipped: frozenset[str],
        enters: Callable[[Place, Found], bool] | None = None,
    ) -> None:
        self._top = real_place(top)
        self._enters = enters or (lambda _place, found: found.name not in skipped)
        self._listed = _below(self._top)
        self.unread = 0

    def __iter__(self) -> Iterator[tuple[Place, Found]]:
        """Yield each place with what the listing says of it."""
        stack = [self._listed]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
                continue
            yield entry
            place, found = entry
            if found.kind != "dir" or found.link or place.is_masked:
                continue
            if not self._enters(place, found):
                continue
            try:
                stack.append(_below(place))
            except ToolFailure:
                self.unread += 1


def _below(folder: Place) -> Iterator[tuple[Place, Found]]:
    return iter([(folder.below(found.name), found) for found in list_folder(folder)])


def unread_note(unread: int) -> list[str]:
    """Return the line that says how many entries were skipped, if any."""
    if not unread:
        return []
    return ["1 entry could not be read" if unread == 1 else f"{unread} entries could not be read"]
