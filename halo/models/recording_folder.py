"""A folder of recordings to read from: it lies in a repository, so whatever is in it is judged."""

from collections.abc import Iterator

import msgspec

from halo.errors import ProviderError, TreeError
from halo.files.roots import ConfinedRoot
from halo.models.recordings import LARGEST, Asked, Recording, decode, file_of, key_in

# How much is searched for what comes near to a request that has no recording: recordings that are compared,
# and files and bytes that are read for it.
_MOST_COMPARED = 1_000
_MOST_FILES = 10_000
_MOST_BYTES = 256 * 1024 * 1024

_UNUSABLE = (OSError, TreeError, msgspec.MsgspecError, ValueError, RecursionError)


class RecordingFolder:
    """Reads recordings, one by one or all of them."""

    def __init__(self, folder: str) -> None:
        self.path = folder
        self._root = ConfinedRoot(folder)

    @property
    def exists(self) -> bool:
        """Whether there is such a folder."""
        return self._root.kind("") == "dir"

    def read(self, key: str) -> Recording | None:
        """Read a recording; None when there is none. Raises ProviderError for one that cannot be used."""
        try:
            return self.load(key, LARGEST)[0]
        except FileNotFoundError:
            return None
        except _UNUSABLE as error:
            raise ProviderError(
                f"the recording {file_of(key)} in {self.path} cannot be used: {error}",
                hint="record it again with --record",
            ) from error

    def requests(self) -> Iterator[tuple[str, Asked]]:
        """Yield keys and whole requests.

        Recordings that cannot be used are no help and are passed over, and so are those of a conversation
        whose beginning is not there any more.
        """
        entries = self._root.entries("")
        keys = sorted(key for e in entries if e.kind == "file" and (key := key_in(e.name)) is not None)
        search = _Search(self)
        for key in keys[:_MOST_COMPARED]:
            request = search.whole(key)
            if request is not None:
                yield key, request

    def load(self, key: str, most: int) -> tuple[Recording, int]:
        """Read a recording of at most so many bytes; return how many it has. Raises one of `_UNUSABLE`."""
        data = self._root.read(file_of(key), most + 1)
        if len(data) > most:
            raise ValueError(f"it has more than {most:,} bytes")
        return decode(data), len(data)


class _Search:
    """Reads each file once, and no more than there is room for."""

    def __init__(self, folder: RecordingFolder) -> None:
        self._folder = folder
        self._found: dict[str, Recording | None] = {}
        self._room = _MOST_BYTES

    def whole(self, key: str) -> Asked | None:
        """Return a whole request: that of the first recording of its conversation, and all that followed."""
        followed: dict[str, Recording] = {}
        while key not in followed and (recording := self._recording(key)) is not None:
            if recording.request is not None:
                later = (m for r in reversed(followed.values()) for m in r.messages)
                messages = [*recording.request.messages, *later]
                return msgspec.structs.replace(recording.request, messages=messages)
            followed[key] = recording
            key = recording.follows
        return None

    def _recording(self, key: str) -> Recording | None:
        if key not in self._found:
            self._found[key] = None
            if len(self._found) <= _MOST_FILES:
                try:
                    self._found[key], size = self._folder.load(key, min(LARGEST, self._room))
                    self._room -= size
                except _UNUSABLE:
                    pass
        return self._found[key]
