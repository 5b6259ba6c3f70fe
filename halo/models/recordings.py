"""Recordings of exchanges with a model: one file a request, named by its digest (docs/reference/formats.md).

A request is written as Halo knows it, not as a provider's protocol has it: the system text with its slots as
they are written, tools, few-shots, messages, and what shapes the reply. No key, no header, no endpoint, no
path of the machine. So a recording answers on another machine and another day, and its diff can be read.

A conversation is written once: a request that goes on where another recording is names that one and holds
only the messages that came since. Its name says the rest, being the digest of the whole request.
"""

import re
from typing import Any, Literal

import msgspec

from halo.errors import Fault, ProviderError
from halo.files.canonical import canonical_json, readable_json
from halo.files.digests import sha256
from halo.models.adapter import Finished, Request, StopReason
from halo.models.disguise import Disguise
from halo.records.artifacts import Binding
from halo.records.messages import Message
from halo.records.usage import Usage

FORMAT = 2

# In format 1 every file held the whole request.
_READ = (1, FORMAT)

# Bytes of a file that is read.
LARGEST = 64 * 1024 * 1024

_KEY = re.compile(r"[0-9a-f]{64}")

# How an error names the model's side (`halo.models.failures`).
_WHERE = re.compile(r"\A(\w+) at https?://\S+(?= )")

# What says where a model is and how it is paid, not what it answers.
_ELSEWHERE = ("provider", "model", "endpoint", "cache")

# Kinds of errors that are the answer to this very request; others are about the day, the key or the network.
_ANSWERS: tuple[Fault, ...] = ("overflow", "request")


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request. `system` is the unfilled text, a line each; `options` what is set of sampling and so on."""

    provider: str
    model: str
    system: list[str] = []
    tools: list[dict[str, Any]] = []
    few_shots: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    options: dict[str, Any] = {}
    response_schema: dict[str, Any] | None = None
    tool_choice: str = "auto"


class Spoken(msgspec.Struct, frozen=True):
    """Text or thoughts, in the pieces in which they came."""

    kind: Literal["text", "thinking"]
    pieces: list[str]


class Failed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model's side refused."""

    kind: Fault
    message: str
    hint: str | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came back: what was said in its order, then the whole reply or an error."""

    said: tuple[Spoken, ...] = ()
    message: dict[str, Any] | None = None
    stop_reason: StopReason = "end"
    usage: Usage = Usage()
    model: str = ""
    error: Failed | None = None

    def finished(self, disguise: Disguise, digest: str) -> Finished:
        """Return the reply, `digest` in the place of the request's. Raises ProviderError for a refusal."""
        if self.error is not None:
            raise ProviderError(self.error.message, hint=self.error.hint, kind=self.error.kind)
        message = msgspec.convert(disguise.uncover(self.message), Message)
        return Finished(message, self.stop_reason, self.usage, self.model, digest)


class Recording(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file: a request, and its answers in the order in which they came in one run.

    Either the whole `request`, or the `messages` that came since that of the recording `follows`, which is
    the same in all else.
    """

    format: int
    answers: tuple[Answer, ...]
    request: Asked | None = None
    follows: str = ""
    messages: list[dict[str, Any]] = []


def asked(request: Request, disguise: Disguise) -> Asked:
    """Return a request as it is recorded and looked for."""
    messages = disguise.cover(msgspec.to_builtins(request.history))
    return msgspec.structs.replace(without_history(request, disguise), messages=messages)


def without_history(request: Request, disguise: Disguise) -> Asked:
    """Return all of a request but its messages."""
    prefix = request.prefix
    plain = {
        "tools": msgspec.to_builtins(prefix.tools),
        "few_shots": msgspec.to_builtins(prefix.few_shots),
        "options": _options(request.binding),
        "response_schema": request.response_schema,
    }
    system = disguise.cover(prefix.unfilled or prefix.system)
    return Asked(
        provider=request.binding.provider,
        model=disguise.cover(request.binding.model),
        system=system.splitlines(keepends=True),
        tool_choice=request.tool_choice,
        **disguise.cover(plain),
    )


def _options(binding: Binding) -> dict[str, Any]:
    """Return what is set: an option that a later version adds leaves recordings of today what they are."""
    unset = msgspec.to_builtins(Binding("", "", max_tokens=0))
    plain = msgspec.to_builtins(binding)
    return {name: value for name, value in plain.items() if name not in _ELSEWHERE and value != unset[name]}


def answered(pieces: list[tuple[str, str]], finished: Finished, disguise: Disguise) -> Answer:
    """Return a reply as it is recorded; `pieces` are kinds and texts."""
    return Answer(
        _covered(pieces, disguise),
        disguise.cover(msgspec.to_builtins(finished.message)),
        finished.stop_reason,
        finished.usage,
        finished.model,
    )


def refused(error: ProviderError, disguise: Disguise) -> Answer | None:
    """Return a refusal as it is recorded, without the endpoint; None if it says nothing about the request."""
    if error.kind not in _ANSWERS:
        return None
    message, hint = disguise.cover([_WHERE.sub(r"\1", error.message), error.hint])
    return Answer(error=Failed(error.kind, message, hint))


def _covered(pieces: list[tuple[str, str]], disguise: Disguise) -> tuple[Spoken, ...]:
    """Cover pieces; those of one kind that follow each other are one text."""
    out: list[Spoken] = []
    run: list[str] = []
    for index, (kind, text) in enumerate(pieces):
        run.append(text)
        if index + 1 == len(pieces) or pieces[index + 1][0] != kind:
            spoken: Literal["text", "thinking"] = "thinking" if kind == "thinking" else "text"
            out.append(Spoken(spoken, disguise.cover_pieces(run)))
            run = []
    return tuple(out)


def key_of(request: Asked) -> str:
    """Return the name of a request: the SHA-256 of its canonical JSON."""
    return sha256(canonical_json(request))


def encode(recording: Recording) -> bytes:
    """Return the bytes of a file: sorted and indented, so that a diff shows what changed and no more."""
    return readable_json(recording)


def decode(data: bytes) -> Recording:
    """Read a file. Raises `msgspec.MsgspecError` or ValueError for what is no recording of a known format."""
    recording = msgspec.json.decode(data, type=Recording)
    if recording.format not in _READ:
        raise ValueError(f"it has format {recording.format}; this version of Halo reads up to {FORMAT}")
    goes_on = _KEY.fullmatch(recording.follows) is not None and bool(recording.messages)
    if goes_on is (recording.request is not None):
        raise ValueError("it holds neither a request nor what follows one")
    return recording


def file_of(key: str) -> str:
    """Return the file's name of a recording."""
    return f"{key}.json"


def key_in(name: str) -> str | None:
    """Return the key in a file's name; None when it is not the name of a recording."""
    key = name.removesuffix(".json")
    return key if name == file_of(key) and _KEY.fullmatch(key) else None
