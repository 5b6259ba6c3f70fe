"""Starts a session for a task: checked first, written down by the parent, then begun."""

import os
import secrets
from typing import NamedTuple

import msgspec

from halo.errors import HaloError
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.session_events import ChildStarted, SessionChanged
from halo.records.targets import Access, AgentTarget
from halo.sessions.beginning import Relation, begin
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.folder import OpenSession
from halo.sessions.ids import new_session_id, timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.routing.key import SessionKey
from halo.tools.base import ToolFailure, brief
from halo.workspace.locate import relative_directory
from halo.workspace.models.naming import profile_named

ORIGIN = "session"


class Task(NamedTuple):
    """What a child shall do. `seconds` 0: no limit; `profile` as in `AgentTarget`."""

    agent: str
    message: str
    title: str = ""
    directory: str = ""
    profile: str = ""
    seconds: float = 0.0
    cleanup: str = "keep"


def checked_directory(desk: Desk, path: str) -> str:
    """Return the working directory of a child, relative to the workspace. Raises `ToolFailure`."""
    workspace = desk.builder.places.workspace
    whole = path if os.path.isabs(path) else os.path.join(workspace, path)
    try:
        return relative_directory(workspace, whole)
    except HaloError:
        # Its own message names the workspace's place on this machine, which is no business of a model.
        raise ToolFailure(f"working_dir {brief(path)} is no folder of the workspace") from None


def checked_model(desk: Desk, name: str, agent: str) -> str:
    """Return the profile of `agent` with the model that `name` names. Raises `ToolFailure`."""
    try:
        return profile_named(desk.tree, name, agent)
    except HaloError as error:
        raise ToolFailure(f"model: {error.message}" + (f"; {error.hint}" if error.hint else "")) from None


def start_child(desk: Desk, parent: OpenSession, task: Task, access: Access) -> str:
    """Begin a session with `task` waiting in its inbox, and return its id. Nobody runs it yet.

    The parent writes down first that it starts it: a crash after that leaves a child that was never begun,
    which everybody passes over, and never one that its parent does not know. `access` is what the parent's
    turn may do; the child may do no more.
    """
    places = desk.builder.places
    sessions = sessions_folder(places.halo)
    created = parent.conversation.created
    agent = created.target.agent if created is not None else ""
    depth = created.depth if created is not None else 0
    root = (created.root if created is not None else "") or parent.folder.id
    child_id = new_session_id(desk.now_ns(), secrets.token_bytes(6))
    parent.append(ChildStarted(child_id, task.agent, "", task.title, task.cleanup, task.seconds))
    relation = Relation(
        key=SessionKey(task.agent, "spawned", peer=child_id).text,
        parent=parent.folder.id,
        root=root,
        depth=depth + 1,
    )
    target = AgentTarget(task.agent, role="sub", directory=task.directory, access=access)
    with begin(sessions, places.home, desk.now_ns, target, ORIGIN, relation, session_id=child_id) as session:
        for name, value in _settings(task).items():
            session.append(SessionChanged(name, value, by=agent), turn=0)
        sender = Sender("agent", session=parent.folder.id, agent=agent, access=access)
        now = desk.now_ns()
        message = Incoming(FORMAT, f"task:{child_id}", timestamp(now), task.message, sender)
        Inbox(session.folder.path).put(message, now)
    return child_id


def _settings(task: Task) -> dict[str, str]:
    settings = {"title": task.title, "model": task.profile}
    if task.seconds:
        settings["seconds"] = msgspec.json.encode(task.seconds).decode()
    return {name: value for name, value in settings.items() if value}
