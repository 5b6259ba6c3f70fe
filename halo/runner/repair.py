"""What is mended of a reply, and what is kept from running again and again."""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.models.adapter import StopReason
from halo.records.events import Repaired
from halo.records.messages import Block, Message, Text, ToolCall, ToolResult

CUT_OFF = (
    "This call was not run: the reply reached its limit of tokens while the call was written. "
    "Make it again, with less in it."
)

# Characters of arguments that are mended. It takes some microseconds for each, and everything waits.
_LONGEST = 200_000

# How often the same call may stand in a row, and among the last calls, before it is not run any more. Calls
# that ask how something else is doing may repeat themselves longer.
_IN_A_ROW = 3
_AMONG_LAST = 4
_LAST = 12
_POLLING = frozenset({"session_list", "session_status", "get_session_output", "query_session"})

# So many replies with suppressed calls, and the turn ends: the model does not listen.
_MOST_STORMS = 3


# Tells whether arguments fit the tool of that name.
Fits = Callable[[str, dict[str, Any]], bool]


def not_empty(reply: Message) -> Message:
    """Return a reply as a history can hold it: no message is without a block, also where nothing was said."""
    return reply if reply.content else Message(reply.role, (Text(""),))


def mend_arguments(message: Message, stop: StopReason, fits: Fits) -> tuple[Message, list[Repaired]]:
    """Mend calls whose arguments are no JSON object, where what comes out fits the tool's schema.

    What does not fit stays as it is and is answered as an error when it is run: it never becomes `{}`.
    Arguments of a reply that was cut off are not mended, for what is missing is unknown.
    """
    repairs: list[Repaired] = []
    if stop == "max_tokens" or all(_is_object(call.arguments) for call in message.calls):
        return message, repairs
    content: list[Block] = []
    for block in message.content:
        mended = block
        if isinstance(block, ToolCall) and not _is_object(block.arguments):
            value = _mended(block.arguments)
            if value is not None and fits(block.name, value):
                mended = msgspec.structs.replace(block, arguments=canonical_json(value).decode())
                repairs.append(Repaired("arguments", block.id, block.name, before=block.arguments))
        content.append(mended)
    return Message(message.role, tuple(content)), repairs


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        return False


def _mended(arguments: str) -> dict[str, Any] | None:
    """Return what a library makes of malformed JSON, None where that is no object.

    The library closes whatever is open. Half a file would be written as if it were the whole.
    """
    if len(arguments) > _LONGEST or _breaks_off(arguments):
        return None
    import json_repair

    try:
        value = json_repair.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value else None


def _breaks_off(arguments: str) -> bool:
    """Tell whether a text ends within a value, whatever the reason is that the provider gave for its end."""
    in_text = False
    characters = iter(arguments)
    for character in characters:
        if character == '"':
            in_text = not in_text
        elif character == "\\" and in_text:
            next(characters, "")
    return in_text or not arguments.rstrip().endswith(("}", "]", '"', "'", "`"))


class Storms:
    """Watches the calls of one turn for the same one again and again, with the same result."""

    def __init__(self) -> None:
        self._last: deque[tuple[str, str]] = deque(maxlen=_LAST)  # what was called, the digest of its result
        self._storms = 0
        self._told = False

    @property
    def over(self) -> bool:
        """Whether there were so many storms that the turn should end."""
        return self._storms >= _MOST_STORMS

    def begin(self) -> None:
        """Begin a reply. However many of its calls are suppressed, the model is told of them together."""
        self._told = False

    def suppress(self, call: ToolCall) -> tuple[ToolResult, Repaired] | None:
        """Return the answer to a call that must not run again, and what is recorded; None to run it."""
        times = self._times(call)
        if times is None:
            return None
        self._storms += not self._told
        self._told = True
        note = f"the same call was made {times} times before, with the same result"
        text = (
            f"This call was not run: {note}, which you have. "
            "Use that result, try something else, or tell the user what is in the way."
        )
        return ToolResult(call.id, text, is_error=True), Repaired("storm", call.id, call.name, note=note)

    def _times(self, call: ToolCall) -> int | None:
        key = _key(call)
        equal = [result for name, result in self._last if name == key]
        if not equal:
            return None
        alike = sum(result == equal[-1] for result in equal)
        if call.name in _POLLING:
            return alike if alike >= _LAST else None
        recent = list(self._last)[-(_IN_A_ROW - 1) :]
        in_a_row = len(recent) == _IN_A_ROW - 1 and all(entry == (key, equal[-1]) for entry in recent)
        return alike if in_a_row or alike >= _AMONG_LAST - 1 else None

    def note(self, call: ToolCall, result: ToolResult) -> None:
        """Remember a call that was run."""
        self._last.append((_key(call), sha256(result.text.encode())))


def waves(calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
    """Part the calls of a reply so that none has a third one like it: the results of two tell of a storm."""
    wave: list[ToolCall] = []
    times: Counter[str] = Counter()
    for call in calls:
        key = _key(call)
        if times[key] == _IN_A_ROW - 1:
            yield wave
            wave, times = [], Counter()
        times[key] += 1
        wave.append(call)
    if wave:
        yield wave


def _key(call: ToolCall) -> str:
    try:
        arguments = canonical_json(json.loads(call.arguments or "{}")).decode()
    except (ValueError, RecursionError):
        arguments = call.arguments
    return f"{call.name} {arguments}"
