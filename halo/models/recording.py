"""`--record DIR`: every exchange with the model becomes a file, before its reply is handed on."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

from halo.errors import ProviderError, StartError
from halo.files.atomic import replace_file
from halo.models.adapter import Adapter, Finished, ModelEvent, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.disguise import Disguise
from halo.models.recordings import Answer, Asked, answered, asked, encode, key_of, refused


class RecordingAdapter:
    """Wraps an adapter, outside of repetitions: what failed and passed leaves no trace.

    The first answer to a request replaces the file of an earlier run; the same request again adds its answer.
    """

    def __init__(self, inner: Adapter, folder: str, disguise: Disguise) -> None:
        """`folder`: where the files go; it is made. Raises StartError when it cannot be."""
        self.inner = inner
        self._folder = folder
        self._disguise = disguise
        self._answers: dict[str, tuple[Answer, ...]] = {}
        try:
            os.makedirs(folder, exist_ok=True)
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
        neutral: Asked = asked(request, self._disguise)
        key = key_of(neutral)
        answers = (*self._answers.get(key, ()), answer)
        try:
            replace_file(os.path.join(self._folder, f"{key}.json"), encode(neutral, answers))
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        self._answers[key] = answers


def _unwritable(folder: str, error: OSError) -> StartError:
    return StartError(
        f"recordings cannot be written to {folder}: {error.strerror}",
        hint="name another folder: --record DIR",
    )
