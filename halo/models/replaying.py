"""`--replay DIR`: a model that answers from recordings. No key, no client, no network."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence

from halo.errors import ProviderError, UsageError
from halo.models.adapter import ModelEvent, Request, TextDelta, ThinkingDelta
from halo.models.disguise import Disguise
from halo.models.recording_folder import RecordingFolder
from halo.models.recordings import Asked, Recording, file_of, key_of
from halo.models.request_chain import Named, RequestChain
from halo.models.request_differences import Difference, difference
from halo.records.artifacts import Segment
from halo.records.targets import Access

_AGAIN = "record it again with --record, or make what differs the same in every run"


class Replay:
    """An adapter; the same request again gets the next answer that was recorded for it."""

    def __init__(
        self,
        provider: str,
        folder: str,
        disguise: Disguise,
        segments: Sequence[Segment] = (),
        access: Access = "full",
    ) -> None:
        """Take the binding's `provider`; the prompt's `segments` and `access` help to say where it differs.

        Raises UsageError when there is no such folder.
        """
        self.provider = provider
        self._folder = RecordingFolder(folder)
        self._disguise = disguise
        self._chain = RequestChain(disguise)
        self._segments, self._access = segments, access
        self._given: Counter[str] = Counter()
        if not self._folder.exists:
            raise UsageError(f"no recordings: {folder} is no folder", hint="make them with --record DIR")

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`. A refusal that was recorded is raised again."""
        named = self._chain.of(request)
        key = named.key
        recording = self._folder.read(key)
        if recording is None:
            raise self._missing(named.asked)
        if not _is_of(recording, named):
            raise ProviderError(
                f"the recording {file_of(key)} in {self._folder.path} holds another request than its name "
                "says",
                hint="record it again with --record",
            )
        number = self._given[key]
        if number >= len(recording.answers):
            raise ProviderError(
                f"this request is made for the {number + 1}. time in this run; {file_of(key)} in "
                f"{self._folder.path} has {len(recording.answers)} answers",
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

    def _missing(self, now: Asked) -> ProviderError:
        nearest: tuple[Difference, str] | None = None
        searched = 0
        for key, recorded in self._folder.requests():
            searched += 1
            found = difference(recorded, now, self._segments, self._access)
            if found is not None and (nearest is None or found.near > nearest[0].near):
                nearest = found, key
        if nearest is None:
            return ProviderError(
                f"no recording in {self._folder.path} answers this request: there are none that can be read",
                hint="make them with --record DIR",
            )
        return ProviderError(
            f"no recording in {self._folder.path} answers this request; the nearest of {searched:,}, "
            f"{nearest[1][:12]}….json, differs first in the {nearest[0]}",
            hint=nearest[0].hint or _AGAIN,
        )


def _is_of(recording: Recording, named: Named) -> bool:
    """Tell whether a recording holds the request that its name says.

    Of one that goes on from another that other one is not needed: the names of both say what it holds.
    """
    if recording.request is not None:
        return key_of(recording.request) == named.key
    new, messages = len(recording.messages), named.asked.messages
    return (
        new < len(messages)
        and recording.messages == messages[-new:]
        and recording.follows == named.key_before(new)
    )
