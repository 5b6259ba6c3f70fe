"""What a recording must not hold is written as a name: this machine's places, and secrets.

Places come back when a recording is replayed elsewhere; secrets never do.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_SHORTEST = 3  # characters of a place; `/` alone would hide every path


class Disguise:
    """Writes names in the place of what they stand for.

    `places` are absolute paths by the name of their slot (`workspace_root`). `mask` puts something else into
    the place of secrets (`halo.tools.secrets.masker`).
    """

    def __init__(
        self,
        places: Mapping[str, str] | None = None,
        mask: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._mask = mask
        self._places = {
            path: f"{{{{{name}}}}}" for name, path in (places or {}).items() if len(path) >= _SHORTEST
        }
        longest = sorted(self._places, key=len, reverse=True)
        # Not in the middle of a longer name: /work/a is not the beginning of /work/ab.
        self._found = (
            re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest))})(?![\w-]|\.\w)")
            if longest
            else None
        )

    def cover(self, value: Any) -> Any:
        """Return plain data (as of `msgspec.to_builtins`) with names in the place of places and secrets."""
        return _each(value, self._cover)

    def uncover(self, value: Any) -> Any:
        """Return plain data with places in the place of their names."""
        return _each(value, self._uncover)

    def cover_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Cover a text that came in pieces, also where it is cut in the middle of what is covered.

        The pieces stay as they are where nothing is.
        """
        whole = "".join(pieces)
        covered = self._cover(whole)
        return list(pieces) if covered == whole else list(_cut_alike(pieces, whole, covered))

    def _cover(self, text: str) -> str:
        masked = self._mask(text)
        if self._found is None:
            return masked
        return self._found.sub(lambda match: self._places[match[0]], masked)

    def _uncover(self, text: str) -> str:
        for path, name in self._places.items():
            text = text.replace(name, path)
        return text


def _each(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _each(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_each(item, change) for item in value]
        case _:
            return value


def _cut_alike(pieces: Sequence[str], whole: str, covered: str) -> Iterator[str]:
    """Cut `covered` where `whole` was cut, but for cuts between the first and the last thing covered."""
    same = 0
    while same < min(len(whole), len(covered)) and whole[same] == covered[same]:
        same += 1
    alike = 0
    while alike < min(len(whole), len(covered)) - same and whole[-1 - alike] == covered[-1 - alike]:
        alike += 1
    shift, position, done = len(covered) - len(whole), 0, 0
    for piece in pieces:
        position += len(piece)
        if position <= same or position >= len(whole) - alike:
            end = position if position <= same else position + shift
            yield covered[done:end]
            done = end
