"""`--replay DIR`: a model that answers from recordings. No key, no client, no network."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from halo.errors import ProviderError, TreeError, UsageError
from halo.files.roots import ConfinedRoot
from halo.models.adapter import ModelEvent, Request, TextDelta, ThinkingDelta
from halo.models.disguise import Disguise
from halo.models.recordings import LARGEST, Asked, Recording, asked, decode, is_recording, key_of
from halo.models.request_differences import Difference, difference
from halo.records.artifacts import Segment

# How much is searched for what comes near to a request that has no recording.
_MOST_FILES = 1_000
_MOST_BYTES = 256 * 1024 * 1024

_AGAIN = "record it again with --record, or make what differs the same in every run"


class Replay:
    """An adapter; the same request again gets the next answer that was recorded for it."""

    def __init__(
        self, provider: str, folder: str, disguise: Disguise, segments: Sequence[Segment] = ()
    ) -> None:
        """Take the binding's `provider`, and the `segments` of the prompt, to say where it differs.

        Raises UsageError when there is no such folder.
        """
        self.provider = provider
        self._folder = folder
        self._root = ConfinedRoot(folder)
        self._disguise = disguise
        self._segments = segments
        self._given: Counter[str] = Counter()
        if self._root.kind("") != "dir":
            raise UsageError(f"no recordings: {folder} is no folder", hint="make them with --record DIR")

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`. A refusal that was recorded is raised again."""
        neutral = asked(request, self._disguise)
        key = key_of(neutral)
        recording = self._read(f"{key}.json")
        if recording is None:
            raise self._missing(neutral)
        if key_of(recording.request) != key:
            raise ProviderError(
                f"the recording {key}.json in {self._folder} holds another request than its name says",
                hint="record it again with --record",
            )
        number = self._given[key]
        if number >= len(recording.answers):
            raise ProviderError(
                f"this request is made for the {number + 1}. time in this run; {key}.json in {self._folder} "
                f"has {len(recording.answers)} answers",
                hint=_AGAIN,
            )
        self._given[key] += 1
        answer = recording.answers[number]
        for spoken in answer.said:
            for text in self._disguise.uncover(spoken.pieces):
                yield TextDelta(text) if spoken.kind == "text" else ThinkingDelta(text)
        yield answer.finished(self._disguise, key)

    async def count(self, request: Request) -> int:
        """Refuse: counts are not recorded."""
        raise ProviderError(f"recordings hold no token counts ({request.binding.model})")

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _read(self, name: str) -> Recording | None:
        """Read a recording; None when there is none. Raises ProviderError for one that cannot be used."""
        try:
            data = self._root.read(name, LARGEST + 1)
        except FileNotFoundError:
            return None
        except (OSError, TreeError) as error:
            raise self._unusable(name, str(error)) from error
        if len(data) > LARGEST:
            raise self._unusable(name, f"it has more than {LARGEST:,} bytes")
        try:
            return decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._unusable(name, str(error)) from error

    def _unusable(self, name: str, why: str) -> ProviderError:
        return ProviderError(
            f"the recording {name} in {self._folder} cannot be used: {why}",
            hint="record it again with --record",
        )

    def _missing(self, now: Asked) -> ProviderError:
        nearest: tuple[Difference, str] | None = None
        searched = 0
        for name, recording in self._others():
            searched += 1
            found = difference(recording.request, now, self._segments)
            if found is not None and (nearest is None or found.near > nearest[0].near):
                nearest = found, name
        if nearest is None:
            return ProviderError(
                f"no recording in {self._folder} answers this request: there are none that can be read",
                hint="make them with --record DIR",
            )
        return ProviderError(
            f"no recording in {self._folder} answers this request; the nearest of {searched:,}, "
            f"{nearest[1][:12]}….json, differs first in the {nearest[0]}",
            hint=_AGAIN,
        )

    def _others(self) -> Iterator[tuple[str, Recording]]:
        """Yield recordings by name; those that cannot be used are no help and are passed over."""
        names = sorted(e.name for e in self._root.entries("") if is_recording(e.name) and e.kind == "file")
        room = _MOST_BYTES
        for name in names[:_MOST_FILES]:
            try:
                data = self._root.read(name, min(LARGEST, room) + 1)
                room -= len(data)
                if room < 0:
                    return
                yield name, decode(data)
            except (OSError, TreeError, msgspec.MsgspecError, ValueError, RecursionError):
                continue
