"""A session in one file: what `halo session export --format json` writes (docs/reference/exchange.md)."""

import msgspec

from halo.records.events import Event
from halo.records.headers import Header

FORMAT = 1
KIND = "halo.session"


class ExportedSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole session as JSON: its header, and its events in order with their attachments in `data`.

    `kind` is always `halo.session`, `version` that of the Halo which wrote it. `lost` says what of the log
    could not be read. Nothing in it proves where it came from: seals of a machine are left out.
    """

    format: int
    kind: str
    version: str
    header: Header
    events: tuple[Event, ...]
    lost: tuple[str, ...] = ()
