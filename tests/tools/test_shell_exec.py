"""`shell_exec` as a model meets it: what it is told of a command, and what it is never told."""

import asyncio
import json
import os

import pytest

from halo.files.roots import ConfinedRoot
from halo.records.messages import ToolCall
from halo.records.tools import WORKSPACE_TOOLS
from halo.tools.base import LONGEST, Surroundings
from halo.tools.sandbox import processes
from halo.tools.sandbox.bubblewrap import Bubblewrap
from halo.tools.sandbox.commands import SandboxedCommands
from halo.tools.sandbox.direct import DirectCommands
from halo.tools.sandbox.mounts import Opening
from halo.tools.secrets import masker
from halo.tools.toolbox import Toolbox

SECRET = "hunter2-correct-horse"


@pytest.fixture
def around(tmp_path):
    return Surroundings(
        workspace=ConfinedRoot(str(tmp_path)),
        skills={},
        load_skill=lambda _skill, _arguments: None,
        commands=DirectCommands(str(tmp_path), os.environ),
        shell_seconds=20,
        secrets={"post.params.token": SECRET},
        mask=masker([("post.params.token", SECRET)]),
    )


def shell(around, command):
    toolbox = Toolbox(WORKSPACE_TOOLS, around)
    return asyncio.run(toolbox.run(ToolCall("c1", "shell_exec", json.dumps({"command": command}))))


def test_output_comes_first_then_errors_then_the_exit_code(around):
    assert shell(around, "echo out").text == "out"
    assert not shell(around, "echo out").is_error
    failed = shell(around, "echo err >&2; echo out; exit 3")
    assert (failed.text, failed.is_error) == ("out\n[stderr]\nerr\n[exit code 3]", True)
    assert shell(around, "exit 1").text == "[exit code 1]"


def test_silence_is_said(around):
    assert shell(around, "true").text == "(no output)"


def test_warnings_alone_are_no_failure(around):
    done = shell(around, "echo careful >&2")
    assert (done.text, done.is_error) == ("[stderr]\ncareful", False)


def test_what_took_too_long_says_how_long(around):
    ended = shell(around._replace(shell_seconds=0.3), "echo begun; sleep 30")
    assert ended.is_error
    assert ended.text.startswith("begun\n[killed after 0.3 seconds")


def test_a_flood_is_reported_as_one_and_not_as_a_timeout(around, monkeypatch):
    monkeypatch.setattr(processes, "FLOOD", 1 << 20)
    monkeypatch.setattr(processes, "KEPT", 1000)
    ended = shell(around, "yes")
    assert "wrote without end" in ended.text
    assert "bytes of output beyond" in ended.text


def test_of_a_long_output_beginning_end_and_exit_code_are_shown(around):
    done = shell(around, "seq 1 100000; seq 1 100000 >&2; exit 4")
    assert done.text.startswith("1\n2\n")
    assert done.text.endswith("100000\n[exit code 4]")
    assert "characters are left out here" in done.text
    assert len(done.text) <= LONGEST


def test_without_commands_the_refusal_is_the_answer(around):
    refused = shell(around._replace(commands=None, refusal="not here"), "true")
    assert (refused.text, refused.is_error) == ("not here", True)


def test_at_readonly_it_is_refused_whatever_the_prompt_offers(around):
    refused = shell(around._replace(access="readonly"), "touch x")
    assert refused.is_error
    assert "needs workspace access" in refused.text
    assert not os.path.exists(f"{around.workspace.path}/x")


def test_without_bubblewrap_it_is_refused_below_full_and_says_what_to_install(around, tmp_path, monkeypatch):
    missing = Bubblewrap(problem="bubblewrap is not installed: install your system's package bubblewrap")
    monkeypatch.setattr("halo.tools.sandbox.bubblewrap.find_bubblewrap", lambda: missing)
    sandboxed = SandboxedCommands(Opening(str(tmp_path), "/home/m", "/home/m/.halo"), {})
    refused = shell(around._replace(access="workspace", commands=sandboxed), "touch x")
    assert refused.is_error
    assert "install your system's package bubblewrap" in refused.text
    assert not (tmp_path / "x").exists()


# Secrets


def test_a_secret_is_put_in_at_execution_and_masked_in_the_result(around):
    used = shell(
        around, "printf '%s' {{post.params.token}} | wc -c; echo is {{post.params.token}}; env | grep horse"
    )
    assert used.text.splitlines()[0].strip() == str(len(SECRET))
    assert "is [secret post.params.token]" in used.text
    assert SECRET not in used.text


@pytest.mark.parametrize(
    "through", ["base64 -w0", "xxd -p -c 99", 'sed \'s/.*/{"a": "&"}/\'', "tee /dev/stderr"]
)
def test_a_secret_does_not_come_back_in_another_guise(around, through):
    assert (
        "[secret post.params.token]"
        in shell(around, f"printf '%s' {{{{post.params.token}}}} | {through}").text
    )


def test_a_secret_is_in_no_argument_of_the_shell(around):
    seen = shell(around, "tr '\\0' ' ' < /proc/$$/cmdline; : {{post.params.token}}").text
    assert "HALO_SECRET_1" in seen
    assert "[secret" not in seen


def test_of_a_secret_where_a_long_output_is_cut_no_part_is_left(around):
    """Cut first, and the half that is left would be no secret that anybody knows."""
    piece = SECRET[: len(SECRET) // 2]
    for shift in range(0, len(SECRET), 3):
        done = shell(
            around, f"printf %{shift}s; for i in $(seq 9000); do printf %s {{{{post.params.token}}}}; done"
        )
        assert "characters are left out here" in done.text
        assert piece not in done.text
        assert SECRET[len(piece) :] not in done.text


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
def test_a_command_that_cannot_be_one_says_what_to_do(around, command):
    refused = shell(around, command)
    assert refused.is_error
    assert "write it to a file" in refused.text


def test_a_failing_command_repeats_no_secret(around):
    failed = shell(around, "cat /nowhere/{{post.params.token}}")
    assert failed.is_error
    assert SECRET not in failed.text


def test_where_a_secret_cannot_be_put_in_nothing_runs(around, tmp_path):
    refused = shell(around, "touch x; echo `echo {{post.params.token}}`")
    assert refused.is_error
    assert not (tmp_path / "x").exists()


def test_no_other_tool_puts_secrets_in(around, tmp_path):
    (tmp_path / "a.txt").write_text(f"{SECRET} {{{{post.params.token}}}}\n")
    toolbox = Toolbox(WORKSPACE_TOOLS, around)
    read = asyncio.run(toolbox.run(ToolCall("c", "file_read", '{"path": "a.txt"}')))
    assert read.text.endswith("[secret post.params.token] {{post.params.token}}")
    asyncio.run(toolbox.run(ToolCall("c", "file_write", '{"path": "b", "content": "{{post.params.token}}"}')))
    if (tmp_path / "b").exists():
        assert SECRET not in (tmp_path / "b").read_text()
