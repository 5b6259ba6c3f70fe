"""Keeps what a server sends from filling the memory. The clients gather an event until it ends, however long.

What is counted is what comes over the wire, so answers must come as they are: a compressed one, which was not
asked for, could be a thousand times as long.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from halo.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

# Bytes of one answer; the longest replies of today's models are a tenth of it.
LONGEST_ANSWER = 128 * 1024 * 1024

# Bytes of one event of a stream, and of an answer that is none. An event that repeats a whole request with
# its tools is the longest of honest ones.
LONGEST_EVENT = 16 * 1024 * 1024

# What asks for answers as they are.
HEADERS = {"accept-encoding": "identity"}

_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


async def bound(response: "httpx2.Response") -> None:
    """Make an answer break off where no honest one goes on. A hook of the HTTP client."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding not in ("", "identity"):
        raise _refused(response, f"is compressed ({encoding[:40]!r}), which was not asked for")
    response.stream = _bounded(response)


class Meter:
    """Counts the bytes of a stream and of its event that has not ended yet."""

    def __init__(self) -> None:
        self.total = 0
        self.event = 0
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total += len(chunk)
        data = self._tail + chunk
        ends = [at + len(end) for end in _ENDS if (at := data.rfind(end)) >= 0]
        # The next event has the bytes behind the last end; those kept to find an end are counted already.
        self.event = len(data) - max(ends) if ends else self.event + len(chunk)
        self._tail = data[-3:]


def _bounded(response: "httpx2.Response") -> "httpx2.AsyncByteStream":
    import httpx2

    stream: Any = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            meter = Meter()
            async for chunk in stream:
                meter.add(chunk)
                if meter.event > LONGEST_EVENT:
                    raise _refused(response, f"has an event of more than {LONGEST_EVENT:,} bytes")
                if meter.total > LONGEST_ANSWER:
                    raise _refused(response, f"has more than {LONGEST_ANSWER:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def _refused(response: "httpx2.Response", why: str) -> ProviderError:
    return ProviderError(
        f"the answer of {response.url.copy_with(query=None, fragment=None)} {why}",
        hint="check that `endpoint` speaks the protocol of this provider",
        kind="protocol",
    )
