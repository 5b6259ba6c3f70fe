"""Every error that a user can cause.

    HaloError                     exit 1   something failed
    ├── UsageError                exit 2   the user's mistake: a wrong name, option or place
    │   ├── NoWorkspaceError               no `.halo/` here or above
    │   ├── UnknownNameError               no such agent, session, model ...; names near misses
    │   └── SessionKeyError                a session key that is malformed, reserved or lacks a peer
    ├── StartError                exit 3   could not start on this machine
    │   ├── MissingKeyError                a provider's key is not set
    │   ├── MissingEngineError             an optional part is not installed
    │   └── ModelFileError                 the model file is absent, cut short or not a model
    ├── LayerError                exit 1   a source file is broken (file and line)
    ├── TreeError                 exit 1   a file cannot be read safely (too large, leaves its root, ...)
    ├── ArtifactError             exit 1   an artifact is damaged or stale
    ├── LogError                  exit 1   an event log cannot be used
    ├── ExchangeError             exit 1   a file is no session that can be imported
    ├── BusyError                 exit 1   another process, or another turn, has what is needed
    ├── BudgetError               exit 1   a budget is used up
    ├── PinError                  exit 1   bytes are not the ones that were asked for (digest mismatch)
    ├── DeliveryError             exit 1   a channel did not take a message
    └── ProviderError             exit 1   the model's side refused, broke off or could not be reached

Each says what is wrong, where, and what to do. What is tolerated is a diagnostic instead
(`halo.records.diagnostics`).
"""

from typing import Literal

# What helps against a provider's error: waiting (`rate_limit`, `transient`), a shorter history (`overflow`),
# another key (`auth`), or nothing but another request (`request`) or another server (`protocol`).
Fault = Literal["rate_limit", "transient", "overflow", "auth", "request", "protocol"]


class HaloError(Exception):
    """An error that the user can act on.

    `message` says what is wrong, `file` and `line` (from 1) where, `hint` what to do.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        from halo.files.visible import shown

        where = ""
        if self.file is not None:
            where = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        return shown(where + self.message) + (f"\n  {shown(self.hint)}" if self.hint else "")

    @property
    def on_one_line(self) -> str:
        """The message, and in brackets what to do: for records and lists, where each has one line."""
        from halo.files.visible import shown

        return shown(self.message) + (f" ({shown(self.hint)})" if self.hint else "")


class UsageError(HaloError):
    """The command was asked for something that does not exist or makes no sense."""

    exit_code = 2


class NoWorkspaceError(UsageError):
    """No `.halo/` folder in the given directory or above it."""


class UnknownNameError(UsageError):
    """A name that nothing answers to."""

    @classmethod
    def of(cls, kind: str, name: str, known: list[str]) -> "UnknownNameError":
        """Build the message for an unknown `name` of `kind`; near misses from `known` are named."""
        hint = near_miss_hint(name, known)
        return cls(f"unknown {kind} {name!r}", hint=hint)


class SessionKeyError(UsageError):
    """A session key that is malformed or reserved, or a message without the id that its key needs."""


class StartError(HaloError):
    """Something that the command needs is not on this machine."""

    exit_code = 3


class MissingKeyError(StartError):
    """A provider's key is not set anywhere."""


class MissingEngineError(StartError):
    """An optional dependency is not installed."""


class ModelFileError(StartError):
    """A model file is absent, cut short, or no model."""


class LayerError(HaloError):
    """A source file is broken."""


class TreeError(HaloError):
    """A file cannot be read safely."""


class ArtifactError(HaloError):
    """An artifact is damaged, or stale where a fresh one was required."""


class LogError(HaloError):
    """An event log cannot be read, and is therefore never written to."""


class ExchangeError(HaloError):
    """A file is no session, or no array of messages, that can be imported."""


class BusyError(HaloError):
    """Another process holds the lock, or another turn the agent."""


class BudgetError(HaloError):
    """A budget is used up, so that a call is not made or is broken off."""


class PinError(HaloError):
    """Bytes do not have the digest that was asked for."""


class ProviderError(HaloError):
    """The model's side refused, broke off or could not be reached.

    `kind` says what helps (`Fault`); `retry_after` is how many seconds the other side asks to wait, None
    where it names none.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        kind: Fault = "request",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retry_after = retry_after


class DeliveryError(HaloError):
    """A channel did not take a message.

    `passes`: it may take the same message later. `retry_after` is how many seconds the other side asks to
    wait, None where it names none.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        passes: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.passes = passes
        self.retry_after = retry_after


def near_miss_hint(name: str, known: list[str]) -> str:
    """Say which of `known` the user may have meant by `name`, or list them all (at most 12)."""
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        # The best one alone, unless others are about as near.
        score = {c: difflib.SequenceMatcher(None, c, name).ratio() for c in close}
        close = [c for c in close if score[c] > score[close[0]] - 0.1]
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    if not known:
        return "there are none"
    shown = ", ".join(sorted(known)[:12])
    return f"known: {shown}" + (", …" if len(known) > 12 else "")
