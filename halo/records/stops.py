"""`stop.json` in a session's folder: a wish that the session stops, whoever runs it."""

import msgspec

FORMAT = 1


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wish that a session stops. `by` says who wants it; `at` is ISO 8601 in UTC.

    `last` is the name of the last message that waited then: clocks go back, names in an inbox do not.
    """

    format: int
    at: str
    by: str
    last: str = ""
