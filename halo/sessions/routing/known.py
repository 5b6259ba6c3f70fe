"""The sessions that there are, as far as routing must know them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from halo.records.origins import Origin
from halo.sessions.routing.key import SessionKey


class Known(NamedTuple):
    """A session. `key` is spelt as `SessionKey.text` does; times are ISO 8601, empty where not known.

    `interacted_at`: when a person wrote last. `active`: a turn runs in it. `successor`: where messages of its
    key go since it ended. `parent` started it, `root` is at the top of its tree. `settings` are those that
    `session.changed` set.
    """

    id: str
    key: str
    started_at: str = ""
    interacted_at: str = ""
    active: bool = False
    successor: str = ""
    parent: str = ""
    root: str = ""
    settings: Mapping[str, str] = MappingProxyType({})
    origin: Origin | None = None

    @property
    def open(self) -> bool:
        """Whether messages of its key may still reach it."""
        return not self.successor and not self.settings.get("archived")


def history_of(rows: Iterable[Known], key: SessionKey) -> list[Known]:
    """Return every session that the key ever had, the newest first."""
    text = key.text
    return sorted((row for row in rows if row.key == text), key=lambda row: row.id, reverse=True)


def current_of(history: Iterable[Known]) -> Known | None:
    """Return the one of them that messages reach; None where the next message begins one."""
    return next((row for row in history if row.open), None)
