"""What a later version of Halo writes: read as far as it goes, never taken for damage, never written over."""

import json
import os

import msgspec
import pytest

from halo.errors import LogError
from halo.files.log import CheckedLog
from halo.records.events import FORMAT, Event, MessageAdded, TurnEnded, TurnStarted
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.targets import AgentTarget
from halo.sessions.choice import Choice, choose
from halo.sessions.derived import read_header, render

NOW = 1_790_000_000_123_456_789


def now():
    return NOW


def begin(sessions):
    """A session with one finished turn."""
    with Choice(str(sessions), str(sessions), None, AgentTarget("default"), "cli").open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=1)
        session.append(MessageAdded(user("What is up?")))
        session.append(TurnEnded("done"))
        return session.folder


def later(folder, *events):
    """Append as a later version would: (type, data, further fields of the envelope)."""
    with CheckedLog.open(folder.events) as log:
        for seq, (kind, data, more) in enumerate(events, folder.read().seq + 1):
            event = {"format": FORMAT, "seq": seq, "ts": "t", "type": kind, "turn": 2, "data": data, **more}
            log.append(json.dumps(event).encode())


def bytes_of(folder):
    with open(folder.events, "rb") as file:
        return file.read()


HOLOGRAM = {"type": "hologram", "beam": 7}
CALL = {"type": "tool_call", "id": "c1", "name": "grep", "arguments": "{}"}

UNREADABLE = {
    "newer format": ("message", {"message": {"role": "user", "content": []}}, {"format": FORMAT + 1}),
    "newer format of a known event": ("turn.ended", {"reason": "done"}, {"format": FORMAT + 1}),
    "newer format, another envelope": ("message", {}, {"format": FORMAT + 1, "turn": "2a", "seq": "x"}),
    "unknown block": ("message", {"message": {"role": "assistant", "content": [HOLOGRAM, CALL]}}, {}),
    "unknown role": ("message", {"message": {"role": "narrator", "content": [CALL]}}, {}),
    "another shape": ("usage", {"tokens": 3}, {}),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("tail", [b"", b'{"torn'])
def test_a_log_of_a_newer_version_is_read_and_never_written_to(tmp_path, case, tail):
    """Going on without what it says would leave a gap; not even a torn tail is closed."""
    folder = begin(tmp_path)
    later(folder, UNREADABLE[case])
    with open(folder.events, "ab") as file:
        file.write(tail)
    before = bytes_of(folder)
    conversation = folder.read()
    assert conversation.history()[0] == user("What is up?")
    assert len(conversation.newer) == 1
    assert len(conversation.damaged) == bool(tail)
    assert read_header(folder).agent == "default"
    with pytest.raises(LogError) as caught:
        folder.open(now)
    assert caught.value.file == folder.events
    assert "newer" in caught.value.message
    assert "use the newer Halo" in caught.value.hint
    with pytest.raises(LogError, match="newer"):
        choose(str(tmp_path), None, "cli", home=str(tmp_path), named=folder.id, new=False)
    assert bytes_of(folder) == before


def test_a_refusal_does_not_hold_the_session(tmp_path):
    folder = begin(tmp_path)
    later(folder, UNREADABLE["newer format"])
    for _ in range(2):
        with pytest.raises(LogError):
            folder.open(now)


def test_an_unknown_block_costs_neither_the_rest_of_its_message_nor_a_result(tmp_path):
    folder = begin(tmp_path)
    content = [{"type": "text", "text": "See."}, HOLOGRAM, CALL]
    result = {"result": {"type": "tool_result", "call_id": "c1", "text": "one"}, "tool": "grep"}
    later(
        folder,
        ("message", {"message": {"role": "assistant", "content": content}}, {}),
        ("tool.result", result, {}),
    )
    said, answer = folder.read().history()[1:]
    assert said.content[0] == Text("See.")
    assert "hologram" in said.content[1].text
    assert said.content[2] == ToolCall("c1", "grep", "{}")
    assert answer == Message("user", (ToolResult("c1", "one"),))
    shown = "".join(render(found) for found in folder.read_events())
    assert "See." in shown
    assert "hologram" in shown


@pytest.mark.parametrize("reason", ["done", "paused", "refusal", "budget"])
def test_an_unknown_reason_ends_a_turn_like_any_other(tmp_path, reason):
    """It is no damage, and the turn is not mended as interrupted."""
    folder = begin(tmp_path)
    later(
        folder,
        ("turn.started", {"artifact": "a", "fingerprint": "f"}, {}),
        ("turn.ended", {"reason": reason}, {}),
    )
    before = bytes_of(folder)
    with folder.open(now) as session:
        assert session.conversation.ended == TurnEnded(reason)
        assert session.conversation.damaged == session.conversation.newer == []
    assert bytes_of(folder) == before


def test_unknown_words_in_other_fields_are_no_damage(tmp_path):
    folder = begin(tmp_path)
    usage = {"provider": "p", "model": "m", "usage": {}, "stop_reason": "paused"}
    later(
        folder,
        ("usage", usage, {}),
        ("turn.ended", {"reason": "done", "mood": "fine"}, {}),
        ("new.type", [1], {}),
    )
    conversation = folder.read()
    assert conversation.damaged == conversation.newer == []
    folder.open(now).close()


@pytest.mark.parametrize("field", ["role", "mode", "platform", "access", "kind"])
def test_a_session_with_a_target_of_a_newer_version_is_shown_and_not_run(tmp_path, field):
    """An unknown origin or role is no damage. What cannot be compiled here is not run as something else."""
    folder = begin(tmp_path)
    (created, *_), _ = list(folder.read_events()), None
    data = msgspec.json.decode(created.data)
    data["target"][field] = "later"
    data["origin"] = "telepathy"
    os.unlink(folder.events)
    with CheckedLog.open(folder.events, create=True) as log:
        raw = msgspec.Raw(msgspec.json.encode(data))
        log.append(msgspec.json.encode(msgspec.structs.replace(created, data=raw)))
    conversation = folder.read()
    assert conversation.damaged == conversation.newer == []
    header = read_header(folder)
    assert (header.agent, header.origin) == ("default", "telepathy")
    for named in (folder.id, None):
        with pytest.raises(LogError, match="later"):
            choose(str(tmp_path), None, "telepathy", home=str(tmp_path), named=named, new=False)


def test_events_say_the_format_of_this_version(tmp_path):
    assert all(isinstance(e, Event) and e.format == FORMAT for e in begin(tmp_path).read_events())
