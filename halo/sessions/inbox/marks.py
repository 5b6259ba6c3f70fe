"""`sessions/waiting/<session id>`: which sessions of a workspace have messages, for those who take them.

A mark is a hint, set after a message was put and before its sender goes on. Whoever drains a session takes
the mark away before it looks into the inbox, so that none is lost: what is put later sets it again. Who runs
the session in its own process sets none, or a worker beside it would take the answer away from the terminal.
A process that died before it set one, or before it ran the session, leaves a message without a mark: a worker
looks into all inboxes when it starts, and from time to time.
"""

import os
from contextlib import suppress

from halo.files.atomic import create_file
from halo.files.regular import refuse_links
from halo.sessions.ids import is_session_id

FOLDER = "waiting"


def marks_folder(sessions: str) -> str:
    """Return the folder of the marks; `sessions` is the `.halo/sessions` folder."""
    return os.path.join(sessions, FOLDER)


def mark(sessions: str, session_id: str) -> None:
    """Say that messages wait for a session. Raises OSError."""
    refuse_links(sessions, FOLDER)
    create_file(os.path.join(sessions, FOLDER, session_id), b"")


def unmark(sessions: str, session_id: str) -> None:
    """Take the mark away. Raises OSError, but not where there is none."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(sessions, FOLDER, session_id))


def marked(sessions: str) -> list[str]:
    """Return the ids of all marked sessions, the oldest session first."""
    try:
        names = os.listdir(os.path.join(sessions, FOLDER))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if is_session_id(name))
