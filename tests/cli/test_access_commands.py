"""Access and trust on the command line: what `init` grants, what `trust` and `doctor` show, what `run` takes."""

import json
import os
import subprocess
import sys

import pytest
from making import agent

from halo.cli.main import run
from halo.tools.sandbox.bubblewrap import find_bubblewrap

CHANGING = ["file_read", "shell_exec"]


@pytest.fixture
def ws(make_workspace, monkeypatch, tmp_path):
    """A workspace that somebody else made, as the current directory."""
    made = make_workspace(
        {".halo/agents/clerk/agent.yaml": agent(tools=CHANGING), ".halo/USER.md": "Mira.\n"}
    )
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HOME", str(made.home.parent))
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HALO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-mine")
    return made


@pytest.fixture
def model(ws, scripted):
    ws.write({".halo/agents/clerk/agent.yaml": agent(
        tools=CHANGING, model={"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1"}
    )})  # fmt: skip
    return scripted


def says(server, delta, finish="stop"):
    """Add a streamed reply."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
    choices = [
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    server.says_chat(*({**head, "choices": [choice]} for choice in choices))


def calls(server, command):
    """Add a reply that runs a command, and one that ends the turn."""
    function = {"name": "shell_exec", "arguments": json.dumps({"command": command})}
    says(
        server,
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}]},
        "tool_calls",
    )
    says(server, {"content": "Done."})


def doctor(capfd):
    run(["doctor"])
    return capfd.readouterr().out


def test_trust_shows_which_tools_agents_would_get(ws, capfd):
    assert run(["trust", "-y"]) == 0
    out = capfd.readouterr().out
    assert "agent clerk may use shell_exec, not only read\n" in out
    assert "your own agents, and those of Halo, may use all their tools here, not only read\n" in out


def test_doctor_says_what_is_allowed(ws, capfd):
    assert "missing  trust: agents only read here; the workspace asks for more\n" in doctor(capfd)
    run(["trust", "-y"])
    assert "ok       trust: agents may change files and run commands here\n" in doctor(capfd)
    ws.write({".halo/settings.yaml": "general: {tools: {network: true}}"})
    assert "agents may change files and run commands here; the workspace asks for more" in doctor(capfd)
    run(["trust", "--revoke"])
    assert "agents only read here" in doctor(capfd)


def test_doctor_tries_bubblewrap_instead_of_looking_for_it(ws, capfd, monkeypatch, tmp_path):
    fake = tmp_path / "bin/bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr("halo.tools.sandbox.bubblewrap.FOLDERS", str(fake.parent))
    assert "missing  bubblewrap: shell commands run with full access only" in doctor(capfd)


def test_a_new_workspace_is_the_users_own(ws, capfd, monkeypatch, tmp_path):
    assert run(["init", str(tmp_path / "mine")]) == 0
    assert "agents may change files and run commands here" in capfd.readouterr().err
    monkeypatch.chdir(tmp_path / "mine")
    assert "ok       trust: agents may change files and run commands here\n" in doctor(capfd)


def test_a_workspace_that_was_there_is_not_trusted_by_init(ws, capfd):
    assert run(["init"]) == 0
    assert "agents may change" not in capfd.readouterr().err
    assert "agents only read here" in doctor(capfd)


def offered(server, index=0):
    return {tool["function"]["name"] for tool in server.requests[index].json["tools"]} & set(CHANGING)


def test_access_of_a_turn_is_the_least_of_all(ws, model, capfd):
    for _ in range(4):
        says(model, {"content": "Yes."})
    assert run(["run", "-n", "-a", "clerk", "Go."]) == 0
    assert "clerk only reads here" in capfd.readouterr().err
    assert run(["trust", "-y"]) == 0
    capfd.readouterr()
    assert run(["run", "-n", "-a", "clerk", "Go."]) == 0
    assert run(["run", "-n", "-a", "clerk", "--access", "readonly", "Go."]) == 0
    ws.write({"secrets:settings.yaml": "general: {tools: {access: readonly}}"})
    assert run(["run", "-n", "-a", "clerk", "--access", "full", "Go."]) == 0
    assert "only reads here" not in capfd.readouterr().err
    assert [offered(model, i) for i in range(4)] == [
        {"file_read"},
        set(CHANGING),
        {"file_read"},
        {"file_read"},
    ]


def test_a_command_runs_and_no_key_is_in_its_environment(ws, model, capfd):
    calls(model, "pwd; env")
    run(["trust", "-y"])
    assert run(["run", "-n", "-a", "clerk", "Go."]) == 0
    text = model.requests[1].json["messages"][-1]["content"]
    assert text.startswith(f"{ws.root}\n")
    assert "sk-test" not in text
    assert "OPENAI" not in text


@pytest.mark.skipif(bool(find_bubblewrap().problem), reason=find_bubblewrap().problem or "it works")
def test_in_the_sandbox_a_command_does_not_see_the_home(ws, model, capfd):
    command = f"cat {ws.home}/trust.yaml; ls -A {ws.home.parent}; cat .halo/USER.md"
    calls(model, command)
    run(["trust", "-y"])
    assert run(["run", "-n", "-a", "clerk", "--access", "workspace", "Go."]) == 0
    text = model.requests[1].json["messages"][-1]["content"]
    assert "trust.yaml: No such file" in text
    assert text.startswith("ws\nMira.\n")


def test_without_bubblewrap_a_turn_goes_on_and_the_model_is_told(ws, model, capfd, monkeypatch, tmp_path):
    find_bubblewrap.cache_clear()
    try:
        monkeypatch.setattr("halo.tools.sandbox.bubblewrap.FOLDERS", str(tmp_path / "bin"))
        calls(model, "touch made")
        run(["trust", "-y"])
        assert run(["run", "-n", "-a", "clerk", "--access", "workspace", "Go."]) == 0
    finally:
        find_bubblewrap.cache_clear()
    text = model.requests[1].json["messages"][-1]["content"]
    assert "install your system's package bubblewrap" in text
    assert not (ws.root / "made").exists()


def test_no_name_of_a_folder_acts_on_the_terminal_that_asks_for_trust(ws, tmp_path):
    """The name came with the archive; what it draws over the question would be what the user answers."""
    folder = tmp_path / "ws\x1b[2J\u202e\nTrust nothing?"
    ws.root.rename(folder)
    leader, follower = os.openpty()
    try:
        asking = subprocess.Popen(
            [sys.executable, "-m", "halo", "trust"], cwd=folder, env=ws.environ(), stdin=follower,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.write(leader, b"n\n")
        out, err = asking.communicate(timeout=60)
    finally:
        os.close(leader)
        os.close(follower)
    assert asking.returncode == 1
    assert b"agent clerk may use shell_exec" in out
    assert rb"ws\x1b[2J\u202e\nTrust nothing? with this?" in err
    assert b"\x1b" not in out + err


def test_a_folder_with_a_name_that_is_not_unicode_can_be_trusted(ws, tmp_path):
    folder = os.fsencode(tmp_path / "ws") + b"\xff"
    os.rename(ws.root, folder)
    said = [subprocess.run([sys.executable, "-m", "halo", *command], cwd=folder, env=ws.environ(),
                           capture_output=True, check=False, timeout=60)
            for command in (["trust", "-y"], ["trust", "-y"], ["doctor"])]  # fmt: skip
    assert [done.returncode for done in said[:2]] == [0, 0], said
    assert b"allowed already" in said[1].stderr
    assert b"agents may change files and run commands here" in said[2].stdout
