"""What a command comes to."""

from typing import Any, NamedTuple

import msgspec

from halo.records.incoming import Incoming
from halo.sessions.choice import Choice

FORMAT = 1


class Answer(msgspec.Struct, frozen=True):
    """What a command answers, as `halo run --format json` prints it; `format` is that of this record.

    `session` is empty where there is none yet. `text` is for people, `values` the same for programs.
    """

    format: int
    command: str
    session: str
    text: str
    values: dict[str, Any] = {}

    @classmethod
    def of(cls, command: str, choice: Choice, text: str, **values: Any) -> "Answer":
        """Answer for the chosen session."""
        return cls(FORMAT, command, choice.folder.id if choice.folder is not None else "", text, values)


class Done(NamedTuple):
    """What came of something that was typed.

    `choice` is the session to go on in; `message` is what a turn shall be run with there, None for none;
    `answer` is that of a command, `notices` is what its user should know.
    """

    choice: Choice
    message: Incoming | None = None
    answer: Answer | None = None
    notices: tuple[str, ...] = ()
