"""Looks at the window of a session on disk, without holding it."""

from halo.build.builder import Builder
from halo.errors import LogError
from halo.sessions.folder import SessionFolder
from halo.sessions.long.window import Window, window_of


def look_at(builder: Builder, folder: SessionFolder) -> Window:
    """Return what fills the window of a session: what its last turn ran from, and what was said since.

    Before the first turn it is what the next one would run from. Raises `ArtifactError` where the artifact is
    not here any more, `LogError`, and what the compiler raises.
    """
    conversation = folder.read()
    pin = conversation.standing.settings.get("pin", "")
    started = conversation.started.artifact if conversation.started is not None else ""
    if pin or started:
        return window_of(builder.store.load(pin or started), conversation)
    if conversation.created is None:
        raise LogError("its first event, which says whom the session is with, is damaged", file=folder.events)
    return window_of(builder.ensure(conversation.created.target.target()), conversation)
