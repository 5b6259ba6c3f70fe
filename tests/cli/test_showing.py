"""What `halo run` shows of a turn."""

import pytest

from halo.cli.showing import Progress
from halo.models.adapter import Retrying, TextDelta
from halo.records.events import MessageAdded, ToolResultAdded
from halo.records.messages import Message, Text, ToolCall, ToolResult


def shown(capfd, *events, words=True):
    progress = Progress(words=words)
    for event in events:
        progress.show(event)
    return capfd.readouterr()


def called(name, arguments, text="found", *, failed=False):
    return (
        MessageAdded(Message("assistant", (ToolCall("c", name, arguments),))),
        ToolResultAdded(ToolResult("c", text, is_error=failed), name, 12),
    )


def test_each_message_ends_its_line_before_anything_else_is_said(capfd):
    asks = Message("assistant", (Text("I look."), ToolCall("c", "grep", '{"pattern": "x y"}')))
    answers = Message("assistant", (Text("Done."),))
    out, err = shown(
        capfd,
        TextDelta("I look."),
        MessageAdded(asks),
        ToolResultAdded(ToolResult("c", "found"), "grep", 12),
        TextDelta("Done."),
        MessageAdded(answers),
    )
    assert out == "I look.\nDone.\n"
    assert err == "tool    grep x y (12 ms) done\n"


def test_without_words_nothing_is_on_stdout(capfd):
    said = MessageAdded(Message("assistant", (Text("Done."),)))
    assert shown(capfd, TextDelta("Done."), said, words=False) == ("", "")


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        (
            "shell_exec",
            '{"command": "git push\\norigin"}',
            "tool    shell_exec git push ⏎ origin (12 ms) done",
        ),
        ("file_edit", '{"path": "a.md", "old_string": "x"}', "tool    file_edit a.md (12 ms) done"),
        ("session_status", "{}", "tool    session_status (12 ms) done"),
        ("mcp__a__b", '{"n": 3}', 'tool    mcp__a__b {"n":3} (12 ms) done'),
        ("grep", '{"pattern": "\\u001b[31mred"}', "tool    grep \\x1b[31mred (12 ms) done"),
        ("grep", '{"pattern": ', 'tool    grep {"pattern": (12 ms) done'),
    ],
)
def test_a_call_says_what_it_is_about(capfd, name, arguments, line):
    assert shown(capfd, *called(name, arguments)).err == line + "\n"


def test_a_long_one_is_cut(capfd):
    err = shown(capfd, *called("shell_exec", f'{{"command": "{"x" * 500}"}}')).err
    assert len(err) < 150
    assert "…" in err


def test_a_failed_command_says_how_it_ended(capfd):
    text = "[stderr]\nno such file\n[exit code 127]"
    assert shown(capfd, *called("shell_exec", '{"command": "x"}', text, failed=True)).err.endswith(
        "failed: [exit code 127]\n"
    )
    assert shown(capfd, *called("grep", "{}", "no such folder\nmore", failed=True)).err.endswith(
        "failed: no such folder\n"
    )


def test_only_what_was_said_is_void(capfd):
    retry = Retrying("overloaded", 1.5, 1)
    assert shown(capfd, retry).err == "overloaded: trying again in 1.5 s\n"
    assert shown(capfd, TextDelta("Half"), retry, retry).err == (
        "overloaded: trying again in 1.5 s; what was said since the last step is void\n"
        "overloaded: trying again in 1.5 s\n"
    )
