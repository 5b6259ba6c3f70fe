"""What of a session's log is lost, as a report beside it: `damage.json`. The log itself stays as it is."""

import msgspec

FORMAT = 1


class Lost(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line that cannot be used, or a gap before it.

    `line` counts from 1, `offset` and `bytes` say where it stands in the log, `sha256` is that of its bytes,
    `text` its beginning, with what is no text spelt out. `event` is the number of the event, if it is known.
    """

    problem: str
    line: int
    offset: int
    bytes: int
    sha256: str = ""
    text: str = ""
    event: int = 0


class DamageReport(msgspec.Struct, frozen=True):
    """`damage.json`: all that is lost of a log that had `log_bytes` bytes then."""

    format: int
    session: str
    log_bytes: int
    lost: tuple[Lost, ...]
