"""Payloads that are too large for a line of the log: `attachments/<sha256>.json` in the session's folder.

The event keeps the digest, so a payload is verified whenever it is read, and damage to it costs its event
alone.
"""

import errno
import os
import re

import msgspec

from halo.errors import LogError, TreeError
from halo.files.atomic import create_file, replace_file
from halo.files.digests import sha256
from halo.files.roots import ConfinedRoot
from halo.records.events import Attached

FOLDER = "attachments"
LARGEST = 65_536  # bytes of `data` that stand in the log itself

_REFERENCE = b'{"attachment":'
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_BLOCK = 1 << 20  # bytes a read


def put_aside(session: str, data: bytes) -> bytes:
    """Return what an event holds in the place of `data`: itself, or the reference to where it is now.

    An attachment and its name survive a power loss before the event that needs them is written; the name of
    their folder at the latest when that event is acknowledged (everyone who opens a log syncs the names
    beside it). `session` is the session's folder. Raises LogError when the system refuses.
    """
    if len(data) <= LARGEST:
        return data
    digest = sha256(data)
    path = os.path.join(session, FOLDER, f"{digest}.json")
    try:
        if not create_file(path, data, sync=True):
            # Whoever wrote it may have died before it was synced, or it is damaged. Now it is whole.
            replace_file(path, data, sync=True)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise LogError(
            f"cannot be written: {error.strerror}",
            file=path,
            hint="make room on the disk and try again" if full else "check the permissions of the folder",
        ) from error
    return msgspec.json.encode(Attached(digest, len(data)))


def fetch(session: str, data: bytes) -> bytes:
    """Return the payload that an event's `data` stands for. Raises LogError for a missing or damaged one."""
    if not data.startswith(_REFERENCE):
        return data
    try:
        reference = msgspec.json.decode(data, type=Attached)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LogError(f"its reference to an attachment is damaged: {error}") from error
    name = f"{FOLDER}/{reference.attachment}.json"
    if not _DIGEST.match(reference.attachment):
        raise LogError(f"its reference to an attachment is no digest: {reference.attachment[:80]!r}")
    try:
        payload = _read(session, name, reference.bytes)
    except FileNotFoundError as error:
        raise LogError(f"{name} is missing") from error
    except (OSError, TreeError) as error:
        raise LogError(f"{name} cannot be read: {error}") from error
    if sha256(payload) != reference.attachment:
        raise LogError(f"{name} is damaged")
    return payload


def _read(session: str, name: str, size: int) -> bytes:
    """Read at most one byte more than `size`, which is enough to know that it is another file."""
    fd = ConfinedRoot(session).open(name)
    try:
        parts = []
        missing = size + 1
        while missing > 0 and (part := os.read(fd, min(missing, _BLOCK))):
            parts.append(part)
            missing -= len(part)
    finally:
        os.close(fd)
    return b"".join(parts)
