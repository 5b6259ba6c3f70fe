"""Sessions on disk, as turns leave them, without a model."""

import hashlib
import os

from halo.files.seal import machine_key
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, TurnStarted, UsageReported
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.targets import AgentTarget
from halo.records.usage import Usage
from halo.sessions.beginning import Relation, begin
from halo.sessions.derived import write_derived
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox

NOW = 1_790_000_000_123_000_000
SECOND = 10**9


class Clock:
    """A second passes with every look."""

    def __init__(self, at=NOW):
        self.ns = at

    def __call__(self):
        self.ns += SECOND
        return self.ns


class Shelf:
    """A workspace's folder of sessions, and a home with the key of this machine."""

    def __init__(self, sessions, home):
        self.sessions, self.home = str(sessions), str(home)
        self.clock = Clock()
        machine_key(self.home, make=True)

    def begin(self, agent="a", *, origin="cli", **relation):
        """A session that was begun, and no more."""
        target = AgentTarget(agent)
        with begin(self.sessions, self.home, self.clock, target, origin, Relation(**relation)) as session:
            return session.folder

    def talk(self, folder=None, *said, derive=True, **how):
        """Turns in a session, a new one unless it is given: what a user says, and an answer to it."""
        folder = folder or self.begin(**how)
        for text in said or ("What is up?",):
            with folder.open(self.clock) as session:
                session.append(TurnStarted("artifact", "print"), turn=session.conversation.turn + 1)
                session.append(MessageAdded(user(text)))
                session.append(MessageAdded(Message("assistant", (Text(f"You said: {text}"),))))
                session.append(UsageReported("played", "m", Usage(uncached=3, output=2), "digest"))
                session.append(TurnEnded("done"))
                if derive:
                    write_derived(session)
        return folder

    def child(self, parent, agent="b", *, depth=1, root=None):
        """A session that another started, with one turn; `root` is the one at the top."""
        return self.talk(
            agent=agent, origin="session", parent=parent.id, root=(root or parent).id, depth=depth
        )

    def break_off(self, folder, *, result=False):
        """A turn whose process died: in a call, or, with a `result`, behind it."""
        with folder.open(self.clock) as session:
            session.append(TurnStarted("artifact", "print"), turn=session.conversation.turn + 1)
            session.append(MessageAdded(user("look")))
            session.append(MessageAdded(Message("assistant", (ToolCall("c1", "grep", "{}"),))))
            if result:
                session.append(ToolResultAdded(ToolResult("c1", "found"), "grep"))

    def put(self, folder, text="later", name=""):
        message = Incoming(FORMAT, name or text, "", text, Sender("user", owner=True))
        return Inbox(folder.path).put(message, self.clock())

    def folder(self, session_id):
        return SessionFolder(self.sessions, session_id)


def photograph(root):
    """Every file below a folder with its digest: what is the same before and after."""
    found = {}
    for path, _, names in os.walk(root):
        for name in names:
            whole = os.path.join(path, name)
            if name in ("lock", "index.lock"):
                continue  # the process id of whoever looked last
            with open(whole, "rb") as file:
                found[os.path.relpath(whole, root)] = hashlib.sha256(file.read()).hexdigest()
    return found


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()
