"""Large payloads lie beside the log, verified, and damage to one costs its event alone."""

import errno
import json
import os
import shutil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import LogError
from halo.files.digests import sha256
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, TurnStarted
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.targets import AgentTarget
from halo.sessions import attachments
from halo.sessions.attachments import LARGEST, fetch, put_aside
from halo.sessions.choice import Choice
from halo.sessions.derived import write_derived
from halo.sessions.history import LOST_RESULT

NOW = 1_790_000_000_123_456_789
BIG = "läng " * 20_000


def now():
    return NOW


def opened(sessions):
    return Choice(str(sessions), str(sessions), None, AgentTarget("default"), "cli").open(now)


def large(sessions):
    """A session with one turn: a large question, a call with a large result, an answer."""
    with opened(sessions) as session:
        session.append(TurnStarted("artifact", "print"), turn=1)
        session.append(MessageAdded(user("Q" + BIG)))
        session.append(MessageAdded(Message("assistant", (ToolCall("c1", "grep", "{}"),))))
        session.append(ToolResultAdded(ToolResult("c1", "R" + BIG), "grep"))
        session.append(MessageAdded(Message("assistant", (Text("Answer."),))))
        session.append(TurnEnded("done"))
        return session.folder, session.conversation


def stored(folder):
    where = os.path.join(folder.path, attachments.FOLDER)
    return {name: os.path.join(where, name) for name in sorted(os.listdir(where))}


def lines(folder):
    with open(folder.events, "rb") as file:
        return [json.loads(line) for line in file]


def test_a_large_payload_lies_beside_the_log(tmp_path):
    folder, conversation = large(tmp_path)
    asides = [event["data"] for event in lines(folder) if "attachment" in event["data"]]
    assert len(asides) == len(stored(folder)) == 2
    for aside in asides:
        with open(stored(folder)[f"{aside['attachment']}.json"], "rb") as file:
            payload = file.read()
        assert sha256(payload) == aside["attachment"]
        assert len(payload) == aside["bytes"]
        assert json.loads(payload)
    assert os.path.getsize(folder.events) < 5000
    read = folder.read()
    assert read.history() == conversation.history()
    assert read.damaged == []
    assert read.history()[0] == user("Q" + BIG)


@given(st.integers(-3, 3))
def test_the_limit_is_that_of_the_encoded_data(tmp_path_factory, more):
    """Bytes of JSON, not characters: 65,536 stand in the log, one more does not."""
    folder = tmp_path_factory.mktemp("s")
    frame = len(msgspec.json.encode(MessageAdded(user(""))))
    data = msgspec.json.encode(MessageAdded(user("x" * (LARGEST - frame + more))))
    put = put_aside(str(folder), data)
    assert (put == data) == (more <= 0)
    assert fetch(str(folder), put) == data
    assert (folder / "attachments").exists() == (more > 0)


def test_equal_payloads_share_a_file(tmp_path):
    data = b"x" * (LARGEST + 1)
    assert put_aside(str(tmp_path), data) == put_aside(str(tmp_path), data)
    assert len(os.listdir(tmp_path / "attachments")) == 1


DAMAGE = {
    "missing": os.unlink,
    "cut": lambda path: os.truncate(path, 70_000),
    "longer": lambda path: overwrite(path, -1, b"xx"),
    "flipped": lambda path: overwrite(path, 50_000, b"#"),
    "a folder": lambda path: (os.unlink(path), os.mkdir(path)),
    "a fifo": lambda path: (os.unlink(path), os.mkfifo(path)),
    "a link that leaves": lambda path: (os.unlink(path), os.symlink("/etc/hostname", path)),
}


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        file.write(data)


@pytest.mark.skipif(os.name == "nt", reason="FIFOs and symlinks")
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("which", ["question", "result"])
def test_a_damaged_attachment_costs_its_event_alone(tmp_path, how, which):
    """A lost result is answered like any lost result; the log goes on."""
    folder, conversation = large(tmp_path)
    seq = 3 if which == "question" else 5
    name = f"{lines(folder)[seq - 1]['data']['attachment']}.json"
    DAMAGE[how](stored(folder)[name])
    read = folder.read()
    question, call, result, answer = conversation.history()
    if which == "question":
        assert read.history() == (call, result, answer)
    else:
        lost = Message("user", (ToolResult("c1", LOST_RESULT, is_error=True),))
        assert read.history() == (question, call, lost, answer)
    (problem,) = read.damaged
    assert problem.startswith(f"event {seq}: ")
    assert name in problem
    assert read.newer == []
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(TurnEnded("done"))
        write_derived(session)
    assert [event["seq"] for event in lines(folder)] == list(range(1, 10))
    with open(os.path.join(folder.path, "transcript.md"), encoding="utf-8") as file:
        assert f"*event {seq}: " in file.read()


def test_a_lost_result_of_the_last_event_does_not_free_its_number(tmp_path):
    """The number of an event whose attachment is gone is taken: nothing else may get it."""
    with opened(tmp_path) as session:
        session.append(MessageAdded(user(BIG)))
        folder = session.folder
    shutil.rmtree(os.path.join(folder.path, "attachments"))
    with folder.open(now) as session:
        assert session.append(TurnEnded("done")).seq == 3


@pytest.mark.parametrize(
    "reference",
    [
        {"attachment": "../../../../etc/passwd", "bytes": 3},
        {"attachment": "a" * 64, "bytes": 3},
        {"attachment": "A" * 64, "bytes": 3},
        {"attachment": "a" * 64 + "\n", "bytes": 3},
        {"attachment": 7, "bytes": 3},
        {"attachment": "a" * 64},
        {"attachment": "a" * 64, "bytes": "many"},
    ],
)
def test_a_reference_that_is_none_is_damage(tmp_path, reference):
    with pytest.raises(LogError):
        fetch(str(tmp_path), msgspec.json.encode(reference))


def test_what_a_dead_process_left_is_made_whole(tmp_path):
    """A file with the right name and the wrong bytes is replaced when its payload comes again."""
    folder, _ = large(tmp_path)
    for path in stored(folder).values():
        overwrite(path, 10, b"###")
    assert len(folder.read().damaged) == 2
    with folder.open(now) as session:
        session.append(MessageAdded(user("Q" + BIG)))
    assert len(folder.read().damaged) == 1


def test_a_disk_that_takes_no_attachment_takes_no_event(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path) as session:
        before = lines(session.folder)
        monkeypatch.setattr(attachments, "create_file", full)
        with pytest.raises(LogError, match="No space left") as caught:
            session.append(MessageAdded(user(BIG)))
        assert "make room" in caught.value.hint
        assert "attachments" in caught.value.file
        assert lines(session.folder) == before
