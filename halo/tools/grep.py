"""`grep`: lines that match a regular expression."""

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from itertools import compress, islice
from typing import Any, NamedTuple

from halo.files.programs import find_program
from halo.tools.base import Page, Surroundings, ToolFailure
from halo.tools.globs import plain_globs
from halo.tools.paths import Place, kind_of, locate, read_bytes
from halo.tools.search import Match, Search, SearchStopped
from halo.tools.sieve import Sieve
from halo.tools.walking import SKIPPED, Walk, unread_note

_MATCHES = 50
_PATTERN = 1000  # characters
_SECONDS = 10.0  # for the whole call
_LARGEST = 8 * 1024 * 1024  # bytes of a file that is searched
_AT_ONCE = 32  # files that are searched before ripgrep is asked: few gain nothing, and matches are often near
_BATCH, _BATCH_FILES = 8 * 1024 * 1024, 500  # bytes and files that it is asked about together


def grep(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Return `path:line:text` for each match, files in order of their paths.

    Only a failure of the named path is an error; what cannot be read below it is counted. The pattern is
    bounded in length, memory and time (see `search`); what was found until then is returned.
    """
    pattern: str = arguments["pattern"]
    if len(pattern) > _PATTERN:
        raise ToolFailure(f"the pattern has {len(pattern)} characters; {_PATTERN} are possible")
    files = _Files(locate(arguments.get("path", "."), around), plain_globs(arguments.get("include", "")))
    most = arguments.get("max_results", _MATCHES)
    page, notes = Page(), list[str]()
    place, unread = files.top, None
    with Search(pattern, _SECONDS) as search:
        sieve = Sieve(find_program("rg", around.workspace.path), pattern)
        try:
            for place, data, before in _sieved(files.read(search.check), sieve, search):
                for match in search.matches(data, most + 1 - len(page.lines)):
                    if len(page.lines) == most or not page.add(_line(place, match)):
                        notes = [f"... more than {len(page.lines)} matches; narrow the search"]
                        break
                if notes:
                    unread = before  # not what the walk has met since, ahead of the search
                    break
        except SearchStopped as stopped:
            where = f"{stopped}, in {place.shown}"
            notes = [f"the search was stopped {where}; simplify the pattern or search a smaller part"]
    none = [] if page.lines else [f"no match for {pattern!r}"]
    return "\n".join([*none, *page.lines, *notes, *unread_note(files.unread if unread is None else unread)])


class _File(NamedTuple):
    """A file to search; `unread` is how many could not be read until then."""

    place: Place
    data: bytes
    unread: int


def _sieved(files: Iterator[_File], sieve: Sieve, search: Search) -> Iterator[_File]:
    """Leave out files that cannot match, in the same order; the first ones are searched at once."""
    yield from islice(files, _AT_ONCE)
    while sieve.works and (batch := _batch(files)):
        yield from compress(batch, sieve.may_match([file.data for file in batch], search.left))
    yield from files


def _batch(files: Iterator[_File]) -> list[_File]:
    batch: list[_File] = []
    size = 0
    for file in files:
        batch.append(file)
        size += len(file.data)
        if size >= _BATCH or len(batch) == _BATCH_FILES:
            break
    return batch


def _line(place: Place, match: Match) -> str:
    more = f"... [{match.length} characters]" if match.length > len(match.text) else ""
    return f"{place.shown}:{match.number}:{match.text}{more}"


class _Files:
    """The files at or below `top` whose names match one of `globs`; no globs match all."""

    def __init__(self, top: Place, globs: list[str]) -> None:
        self.top = top
        self._globs = globs
        self._unread = 0
        self._walk = Walk(top, SKIPPED) if kind_of(top) == "dir" else None
        # A named file, and what is no file, is opened at once: its failure is the answer.
        self._named = read_bytes(top, _LARGEST) if self._walk is None else b""

    @property
    def unread(self) -> int:
        """How many folders and files were skipped because they could not be read."""
        return self._unread + (self._walk.unread if self._walk is not None else 0)

    def read(self, check: Callable[[], None]) -> Iterator[_File]:
        """Yield the text files; starting inside a skipped folder works. `check` is called at each entry."""
        if self._walk is None:
            yield from self._text(self.top, self._named)
            return
        for place, found in self._walk:
            check()
            if found.kind == "dir" or place.is_masked or not self._wanted(found.name):
                continue
            if found.kind == "file" and found.link:
                continue  # it is searched where it lies
            try:
                data = read_bytes(place, _LARGEST)
            except ToolFailure:  # may not be read, gone meanwhile, a FIFO, a link that leaves or dangles
                self._unread += 1
                continue
            yield from self._text(place, data)

    def _text(self, place: Place, data: bytes) -> Iterator[_File]:
        if b"\0" not in data[:512]:
            yield _File(place, data, self.unread)

    def _wanted(self, name: str) -> bool:
        return not self._globs or any(fnmatch.fnmatchcase(name, glob) for glob in self._globs)
