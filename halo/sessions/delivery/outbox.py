"""The channel `outbox`: a folder with one JSON file a message, for whatever picks it up.

A file appears whole, under the message's id: names sort in the order of the messages, and the same message
is there once, however often it is sent, by however many processes.
"""

import os
import re
from urllib.parse import quote

from halo.errors import DeliveryError, TreeError, UsageError
from halo.files import ops
from halo.files.atomic import create_file, replace_file
from halo.files.canonical import readable_json
from halo.files.roots import ConfinedRoot
from halo.records.outgoing import Outgoing
from halo.sessions.delivery.channels import Opening, Retry

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_DRAFTS = "drafts"


class Outbox:
    """`folder` is absolute, or relative to the workspace; `.halo/outbox/<channel>` if it is left out."""

    text_limit = 0
    drafts = True
    retry = Retry(attempts=3, first=0.1, longest=1.0)

    def __init__(self, opening: Opening) -> None:
        opening.only("folder")
        self.folder = _folder(opening)

    async def send(self, message: Outgoing) -> str:
        """Put the message into the folder, on disk when this returns, and remove the drafts of its reply."""
        import asyncio

        path = os.path.join(self.folder, _file_name(message.id))
        try:
            await asyncio.to_thread(create_file, path, readable_json(message), mode=0o600, sync=True)
            await asyncio.to_thread(_remove, self._draft_of(message))
        except OSError as error:
            raise _failed(path, error) from error
        return os.path.basename(path)

    async def draft(self, message: Outgoing) -> None:
        """Put the draft in the place of the last one."""
        import asyncio

        path = self._draft_of(message)
        try:
            await asyncio.to_thread(replace_file, path, readable_json(message), mode=0o600)
        except OSError as error:
            raise _failed(path, error) from error

    async def close(self) -> None:
        """Do nothing: all that was sent is on disk."""

    def _draft_of(self, message: Outgoing) -> str:
        return os.path.join(self.folder, _DRAFTS, _file_name(message.reply))


def _folder(opening: Opening) -> str:
    named = opening.params.get("folder", "")
    if os.path.isabs(named):
        return os.path.normpath(named)
    workspace = os.path.dirname(opening.halo)
    below = named or f"{os.path.basename(opening.halo)}/outbox/{opening.channel}"
    if opening.account and not named:
        below += "/" + quote(opening.account, safe="").replace(".", "%2E")
    try:
        # A folder that is a link would lead the messages somewhere else.
        real = ConfinedRoot(workspace).destination(below.replace("\\", "/").rstrip("/"))
    except (OSError, TreeError) as error:
        raise UsageError(f"the outbox {below} does not lie in the workspace: {error}") from None
    return os.path.join(workspace, *real.split("/"))


def _file_name(identity: str) -> str:
    if not _NAME.fullmatch(identity):
        raise DeliveryError(f"{identity!a} is no name for a file, so no message can have it")
    return f"{identity}.json"


def _remove(path: str) -> None:
    try:
        ops.unlink(path)
    except FileNotFoundError:
        return


def _failed(path: str, error: OSError) -> DeliveryError:
    return DeliveryError(f"{path} cannot be written: {error.strerror or error}", passes=True)
