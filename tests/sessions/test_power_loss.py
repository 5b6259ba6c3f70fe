"""An acknowledged event survives a power loss from the first one on: every prefix of what was done is tried."""

import os

import pytest
from crash import every_crash, recording, replay

from halo.files import ops
from halo.files.seal import machine_key
from halo.records.events import MessageAdded, TurnStarted
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.messages import user
from halo.records.targets import AgentTarget
from halo.sessions.choice import Choice
from halo.sessions.derived import read_header
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox

NOW = 1_790_000_000_123_456_789
TEXTS = ["small", "L" * 70_000, "small again", "L" * 70_000, "M" * 70_000]


def now():
    return NOW


@pytest.mark.parametrize("made", [0, 1, 2, 3])
def test_what_was_acknowledged_is_there_after_any_crash(tmp_path, made):
    """Some folders were made by a process that died before it synced their names: 1 sessions, 2 the month,
    3 that of the attachments.
    """
    base = tmp_path / "base"
    base.mkdir()
    home = str(tmp_path / "home")
    machine_key(home, make=True)
    acknowledged = []
    with recording() as recorded:
        ops.make_dirs(os.path.join(base, *["sessions", "2026-09"][:made]))
        session = Choice(str(base / "sessions"), home, None, AgentTarget("default"), "cli").open(now)
        folder = session.folder
        acknowledged.append((len(recorded), 1))
        if made == 3:
            session.close()
            ops.mkdir(os.path.join(folder.path, "attachments"))
            session = folder.open(now)
        with session:
            session.append(TurnStarted("artifact", "print"), turn=1)
            for text in TEXTS:
                session.append(MessageAdded(user(text)))
                acknowledged.append((len(recorded), session.conversation.seq))
    assert folder.path.startswith(str(base / "sessions" / "2026-09"))
    events = list(folder.read_events())
    for nth, (upto, lost) in enumerate(every_crash(recorded)):
        into = tmp_path / str(nth)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), **lost)
        safe = max((seq for done, seq in acknowledged if done <= upto), default=0)
        survivor = SessionFolder(str(into / "sessions"), folder.id)
        found = list(survivor.read_events()) if survivor.exists() else []
        whole = [event for event in found if event in events]
        assert whole[:safe] == events[:safe], (upto, lost)
        if not safe:
            continue
        assert list(session_ids(str(into / "sessions"))) == [folder.id]
        assert read_header(survivor).agent == "default"
        with survivor.open(now) as again:  # and it goes on
            again.append(TurnStarted("artifact", "print"), turn=2)


@pytest.mark.parametrize("made", [False, True])
def test_a_message_that_was_put_is_there_after_any_crash(tmp_path, made):
    """`made`: its folder was made by a process that died before it synced the name."""
    base = tmp_path / "base"
    base.mkdir()
    home = str(tmp_path / "home")
    machine_key(home, make=True)
    acknowledged = []
    with recording() as recorded:
        with Choice(str(base / "sessions"), home, None, AgentTarget("default"), "cli").open(now) as session:
            folder = session.folder
        if made:
            ops.mkdir(os.path.join(folder.path, "inbox"))
        begun = len(recorded)
        for name in ("one", "two"):
            Inbox(folder.path).put(Incoming(FORMAT, name, "", name, Sender("user")), NOW)
            acknowledged.append((len(recorded), name))
    for nth, (upto, lost) in enumerate(every_crash(recorded)):
        if upto < begun:
            continue
        into = tmp_path / str(nth)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), **lost)
        waiting, problems = Inbox(SessionFolder(str(into / "sessions"), folder.id).path).waiting()
        assert problems == []
        safe = [name for done, name in acknowledged if done <= upto]
        assert [each.message.id for each in waiting][: len(safe)] == safe, (upto, lost)
