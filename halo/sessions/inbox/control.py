"""`stop.json` in a session's folder: somebody wants it to stop, whatever it does now."""

import datetime as dt
import os
from contextlib import suppress

import msgspec

from halo.files import ops
from halo.files.atomic import replace_file
from halo.files.canonical import readable_json
from halo.files.regular import read_regular
from halo.records.stops import FORMAT, Stop
from halo.sessions.inbox.folder import Inbox

NAME = "stop.json"
_LARGEST = 65_536  # bytes


def request_stop(session: str, stop: Stop) -> None:
    """Ask the process that holds the session in the folder `session` to stop it.

    Raises OSError, for a session that is gone, too.
    """
    last = next(reversed(Inbox(session).names()), "")
    wish = readable_json(msgspec.structs.replace(stop, last=last))
    replace_file(os.path.join(session, NAME), wish, sync=True, folders=False)


def wanted_stop(session: str) -> Stop | None:
    """Return the wish that a session stops. One that cannot be read stops it, too."""
    path = os.path.join(session, NAME)
    try:
        return msgspec.json.decode(read_regular(path, _LARGEST), type=Stop)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, RecursionError):
        return Stop(FORMAT, "", "unknown")


def stops(stop: Stop, name: str) -> bool:
    """Tell whether a message was there when somebody wanted the stop: by the name of its file in the inbox.

    What comes later is a new beginning. A wish without a time that can be read is about all that is there.
    """
    if name <= stop.last:
        return True
    try:
        wanted = dt.datetime.fromisoformat(stop.at).timestamp()
    except ValueError:
        return True
    return int(name[:20]) // 1_000_000 <= round(wanted * 1000)


def done_stopping(session: str) -> None:
    """Take the wish away: the session has stopped. Raises OSError."""
    with suppress(FileNotFoundError):
        ops.unlink(os.path.join(session, NAME))
