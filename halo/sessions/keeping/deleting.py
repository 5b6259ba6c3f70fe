"""Deletes sessions, after it was said what exactly goes with them."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

from halo.errors import BusyError, HaloError, LogError, UsageError
from halo.files import ops
from halo.files.locks import hold
from halo.files.regular import refuse_links
from halo.records.headers import Header
from halo.sessions.derived import read_header
from halo.sessions.folder import LOCK, SessionFolder
from halo.sessions.ids import month_of
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import unmark
from halo.sessions.index.rows import drop_gone
from halo.sessions.keeping.families import Branch, family
from halo.sessions.keeping.showing import Size, size_of
from halo.sessions.usage.gone import remember
from halo.sessions.usage.reading import spending_of

# A folder that is about to go has no name of a session any more, so that a crash leaves no half of one.
DELETED = re.compile(r"\.\d{8}t\d{6}-[0-9a-z]{6}\.[0-9a-f]{12}\.deleted\Z")


class Doomed(NamedTuple):
    """A session that goes: its depth in the tree, its header (None: it cannot be read), what it takes."""

    depth: int
    folder: SessionFolder
    header: Header | None
    size: Size
    waiting: int


class Deletion(NamedTuple):
    """The sessions that go, the named one first, and why they should not go without --force."""

    doomed: tuple[Doomed, ...]
    objections: tuple[str, ...]

    @property
    def size(self) -> Size:
        """What is freed."""
        return Size(sum(d.size.files for d in self.doomed), sum(d.size.bytes for d in self.doomed))


def plan(sessions: str, folder: SessionFolder) -> Deletion:
    """Say what goes with a session: itself and everything below it. One that cannot be read goes alone."""
    try:
        header = read_header(folder)
    except HaloError:
        header = None
    branches = family(sessions, header) if header is not None else []
    doomed = [
        Doomed(
            branch.depth,
            (found := SessionFolder(sessions, branch.header.id)),
            branch.header,
            size_of(found.path),
            Inbox(found.path).count(),
        )
        for branch in branches
    ] or [Doomed(0, folder, None, size_of(folder.path), Inbox(folder.path).count())]
    return Deletion(tuple(doomed), tuple(_objections(sessions, doomed, branches)))


def _objections(sessions: str, doomed: list[Doomed], branches: list[Branch]) -> Iterator[str]:
    for each in doomed:
        if each.waiting:
            waits = "1 message waits" if each.waiting == 1 else f"{each.waiting} messages wait"
            yield f"{waits} for session {each.folder.id}"
    top = branches[0].header if branches else None
    if top is None or not top.parent:
        return
    parent = SessionFolder(sessions, top.parent)
    try:
        standing = parent.read().standing if parent.exists() else None
    except HaloError:
        return  # whoever cannot be read waits for nothing
    if standing is not None and top.turns and top.id not in standing.heard:
        yield f"session {top.parent}, which started {top.id}, has not heard its report"


def delete(sessions: str, deletion: Deletion, *, force: bool) -> None:
    """Delete what was planned. Raises `BusyError` when one is held, `UsageError` for what needs `force`.

    Nothing goes unless all of it can, and nothing that was not planned: what has come since is an objection.
    """
    with ExitStack() as stack:
        for each in deletion.doomed:
            refuse_links(sessions, os.path.relpath(os.path.dirname(each.folder.path), sessions))
            refuse_links(each.folder.path)
            lock = os.path.join(each.folder.path, LOCK)
            stack.enter_context(hold(lock, what=f"session {each.folder.id}"))
        now = plan(sessions, deletion.doomed[0].folder)
        new = {each.folder.id for each in now.doomed} - {each.folder.id for each in deletion.doomed}
        if new:
            raise BusyError(f"another session has been started below it: {', '.join(sorted(new))}")
        if now.objections and not force:
            raise UsageError("; ".join(now.objections), hint="--force deletes it all the same")
        for each in reversed(deletion.doomed):  # the lowest first: a crash leaves no child without its parent
            _remove(sessions, each.folder, force=force)
    for month in {month_of(each.folder.id) for each in deletion.doomed}:
        # `halo gc` finds artifacts mentioned there. Whoever rewrites the file next does the same.
        with suppress(HaloError, OSError):
            drop_gone(sessions, month)


def _remove(sessions: str, folder: SessionFolder, *, force: bool) -> None:
    _remember(sessions, folder, force=force)
    month, name = os.path.split(folder.path)
    gone = os.path.join(month, f".{name}.{os.urandom(6).hex()}.deleted")
    ops.rename_folder(folder.path, gone)
    # Nothing can be put there any more; what came until now was acknowledged.
    if not force and Inbox(gone).count():
        ops.rename_folder(gone, folder.path)
        raise BusyError(f"a message has just come for session {folder.id}")
    ops.fsync_dir(month)
    unmark(sessions, folder.id)
    shutil.rmtree(gone)


def _remember(sessions: str, folder: SessionFolder, *, force: bool) -> None:
    """Keep what the session has used; of a log that cannot be read nobody knows it."""
    try:
        spending = spending_of(folder)
    except LogError:
        return
    try:
        remember(sessions, spending)
    except (HaloError, OSError) as error:
        if not force:
            what = f"what session {folder.id} has used cannot be kept for halo usage: {error}"
            raise LogError(what, hint="--force deletes it all the same") from error
