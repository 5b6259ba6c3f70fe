"""The index as a sieve: it names sessions that cannot be looked for, without reading their rows as headers.

It says "no" only where a row of a session is there and says so. The key, the parent, the root, the agent and
the origin of a session never change, so an old row tells of them as well as the last one.
"""

from collections.abc import Mapping

import msgspec

from halo.sessions.ids import month_of
from halo.sessions.index.rows import lines_of

_BEFORE = b'{"format":1,"id":"'
_ID = slice(len(_BEFORE), len(_BEFORE) + 22)  # 20261002t143012-7k3f9q


class Sieve:
    """Rules out the sessions of which one of `fields` has another value. It reads a month when asked."""

    def __init__(self, sessions: str, fields: Mapping[str, str]) -> None:
        self._sessions = sessions
        self._wanted = tuple(
            b'"%b":%b' % (name.encode(), msgspec.json.encode(value)) for name, value in fields.items()
        )
        self._month = ""
        self._known: set[bytes] = set()
        self._likely: dict[bytes, bytes] = {}

    def rules_out(self, session_id: str) -> bool:
        """Tell whether the session is certainly none of those that are looked for."""
        self._read(month_of(session_id))
        return (name := session_id.encode()) in self._known and name not in self._likely

    def row(self, session_id: str) -> bytes | None:
        """Return the last row of a session that fits, as it is; it may be old."""
        self._read(month_of(session_id))
        return self._likely.get(session_id.encode())

    def _read(self, month: str) -> None:
        if month == self._month:
            return
        self._month = month
        known, likely = self._known, self._likely = set(), {}
        try:
            for record in lines_of(self._sessions, month):
                if not record.startswith(_BEFORE):
                    continue
                known.add(record[_ID])
                for wanted in self._wanted:
                    if wanted not in record:
                        break
                else:
                    likely[record[_ID]] = record
        except OSError:
            known.clear()  # without an index every session is looked at
