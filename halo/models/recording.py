"""`--record DIR`: every exchange with the model becomes a file, before its reply is handed on."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

from halo.errors import ProviderError, StartError
from halo.files.atomic import replace_file
from halo.models.adapter import Adapter, Finished, ModelEvent, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.disguise import Disguise
from halo.models.recordings import FORMAT, Answer, Recording, answered, encode, file_of, key_in, refused
from halo.models.request_chain import Named, RequestChain

# How many messages a recording may come after the one that it goes on from. Between two calls of a turn there
# are two messages, between those of sessions that were recorded now and then some more.
_FURTHEST = 32


class RecordingAdapter:
    """Wraps an adapter, outside of repetitions: what failed and passed leaves no trace.

    The first answer to a request replaces the file of an earlier run; the same request again adds its answer.
    """

    def __init__(self, inner: Adapter, folder: str, disguise: Disguise) -> None:
        """`folder`: where the files go; it is made. Raises StartError when it cannot be."""
        self.inner = inner
        self._folder = folder
        self._disguise = disguise
        self._chain = RequestChain(disguise)
        self._answers: dict[str, tuple[Answer, ...]] = {}
        try:
            os.makedirs(folder, exist_ok=True)
            with os.scandir(folder) as entries:
                files = (entry.name for entry in entries if entry.is_file(follow_symlinks=False))
                self._known = {key for name in files if (key := key_in(name)) is not None}
        except OSError as error:
            raise _unwritable(folder, error) from error

    @property
    def provider(self) -> str:
        """The wrapped adapter's."""
        return self.inner.provider

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        pieces: list[tuple[str, str]] = []
        try:
            async with aclosing(self.inner.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta():
                            pieces.append(("text", event.text))
                        case ThinkingDelta():
                            pieces.append(("thinking", event.text))
                        case Retrying():
                            pieces.clear()
                        case Finished():
                            self._keep(request, answered(pieces, event, self._disguise))
                    yield event
        except ProviderError as error:
            refusal = refused(error, self._disguise)
            if refusal is not None:
                self._keep(request, refusal)
            raise

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`. Counts are not recorded."""
        return await self.inner.count(request)

    async def close(self) -> None:
        """Close the wrapped adapter."""
        await self.inner.close()

    def _keep(self, request: Request, answer: Answer) -> None:
        named = self._chain.of(request)
        key = named.key
        answers = (*self._answers.get(key, ()), answer)
        try:
            replace_file(os.path.join(self._folder, file_of(key)), encode(self._recording(named, answers)))
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        self._answers[key] = answers
        self._known.add(key)

    def _recording(self, named: Named, answers: tuple[Answer, ...]) -> Recording:
        """Write only what is new of a conversation whose last request lies in the folder."""
        messages = named.asked.messages
        for new in range(1, min(len(messages), _FURTHEST + 1)):
            # A request ends with what the user says.
            if messages[-new - 1]["role"] == "user" and (key := named.key_before(new)) in self._known:
                return Recording(FORMAT, answers, follows=key, messages=messages[-new:])
        return Recording(FORMAT, answers, named.asked)


def _unwritable(folder: str, error: OSError) -> StartError:
    return StartError(
        f"recordings cannot be written to {folder}: {error.strerror}",
        hint="name another folder: --record DIR",
    )
