"""`halo chat` on a real terminal, and without one."""

import json
import os
import re
import select
import stat
import subprocess
import sys
import time

import pytest
from making import agent
from test_asking import Terminal, called, said
from turning import ScriptedServer

from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder

WAIT = 30  # seconds: longer than any test


class Chat(Terminal):
    """`halo chat` on a terminal that says where its cursor is."""

    def __init__(self, ws, *arguments):
        super().__init__(ws, *arguments, command="chat", environ={"TERM": "xterm-256color"})
        self.answered = 0
        self.mark = 0

    def step(self):
        if select.select([self.fd], [], [], 0.1)[0]:
            self.shown += os.read(self.fd, 65536).decode("utf-8", "replace")
            asked = self.shown.count("\x1b[6n")
            for _ in range(asked - self.answered):
                self.types("\x1b[1;1R")
            self.answered = asked

    def until(self, text, seconds=20):
        """Read until `text` is shown, behind what was waited for before."""
        deadline = time.monotonic() + seconds
        while text not in (new := plain(self.shown[self.mark :])):
            assert time.monotonic() < deadline, new
            assert self.process.poll() is None, new
            self.step()
        self.mark = len(self.shown)

    def is_given(self, raw, seconds=20):
        """Read until the terminal was given exactly this."""
        deadline = time.monotonic() + seconds
        while raw not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self.process.poll() is None, self.shown
            self.step()

    def enters(self, text):
        self.types(f"{text}\r")


def plain(shown):
    """What a terminal was given, without what moves the cursor or colours."""
    return re.sub(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])", "", shown).replace("\r", "")


def slow(*pieces):
    """Chunks of a streamed reply; a number is a pause in seconds."""
    for piece in pieces:
        if isinstance(piece, str):
            yield b"data: " + json.dumps(said(piece)[0]).encode() + b"\n\n"
        else:
            yield piece


@pytest.fixture
def server():
    made = ScriptedServer()
    yield made
    made.close()


@pytest.fixture
def ws(make_workspace, server):
    model = {"provider": "openai", "id": "m", "endpoint": f"{server.url}/v1"}
    return make_workspace(
        {
            ".halo/USER.md": "Mira.\n",
            ".halo/agents/default/agent.yaml": agent(model=model, tools=["grep"], skills=["tide"]),
            ".halo/agents/default/AGENT.md": "You search.\n",
            ".halo/skills/tide/SKILL.md": "---\nname: Tide\ndescription: Tells the tide.\n---\n\nTell it.\n",
            "charts/harbour.txt": "Depth 7 m.\n",
        }
    )


@pytest.fixture
def chat(ws):
    pytest.importorskip("pty")
    opened = []

    def start(*arguments):
        opened.append(Chat(ws, *arguments))
        opened[-1].until("tokens in")
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def asked(server, number=-1):
    """What the user said in a request."""
    messages = server.requests[number].json["messages"]
    return [m["content"] for m in messages if m["role"] == "user"]


def test_a_turn_a_completed_file_and_new_sessions(chat, ws, server):
    """One process: an answer as Markdown, completion, a command beside turns, `/new`, the end by Ctrl-D."""
    server.says_chat(*said("# Tides\n\nIt is **high** water.\n\x1b[2J\x1b]0;owned\x07 <b>all</b>\n"))
    server.says_chat(*said("Seven metres."))
    server.says_chat(*said("Good day!"))
    shell = chat()
    shell.enters("What is the tide?")
    shell.until("<b>all</b>")
    shell.is_given("\x1b[1mhigh\x1b[0m")
    assert "\x1b[2J" not in shell.shown
    assert "\x1b]0" not in shell.shown
    assert "\\x1b[2J\\x1b]0;owned\\x07" in plain(shell.shown)

    shell.types("How deep? @fi\t")
    shell.until("le")
    shell.types("cha\t")
    shell.until("rts/")
    shell.types("har\t")
    shell.until("bour.txt")
    shell.types("\r")
    shell.until("Seven metres.")
    assert asked(server)[-1].startswith('<file path="charts/harbour.txt"')
    assert asked(server)[-1].endswith("Depth 7 m.\n</file>\n\nHow deep? charts/harbour.txt")

    shell.types("/sta\t")
    shell.until("tus")
    shell.types("\r")
    shell.until("state: idle")
    shell.enters("/new")
    shell.until("Good day!")
    assert len(asked(server)) == 1
    shell.types("\x04")
    assert shell.ends() == 0
    new, old = session_ids(str(ws.halo / "sessions"))
    conversation = SessionFolder(str(ws.halo / "sessions"), old).read()
    assert conversation.standing.successor.to == new
    (history,) = (ws.home / "chat").iterdir()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    typed = [json.loads(line) for line in history.read_text().splitlines()]
    assert typed == ["What is the tide?", "How deep? @file charts/harbour.txt", "/status", "/new"]


def test_ctrl_c_stops_the_answer_and_what_was_queued_comes_next(chat, ws, server):
    server.says(*slow("One. ", "Two. ", WAIT))
    server.says_chat(*said("As you wish."))
    shell = chat()
    shell.enters("Count.")
    shell.until("Two.")
    shell.enters("Stop that.")
    shell.until("it waits for the tool that runs")
    shell.types("\x03")
    shell.until("stopped; Ctrl-C once more leaves")
    shell.until("As you wish.")
    assert asked(server) == ["Count.", "Stop that."]
    shell.types("\x03\x03")
    assert shell.ends() == 0
    (session,) = session_ids(str(ws.halo / "sessions"))
    folder = SessionFolder(str(ws.halo / "sessions"), session)
    texts = [m.text for m in folder.read().messages]
    assert texts == ["Count.", "One. Two. ", "Stop that.", "As you wish."]


def test_a_second_ctrl_c_leaves_a_turn_that_runs(chat, ws, server):
    server.says(*slow("One. ", WAIT))
    shell = chat()
    shell.enters("Count.")
    shell.until("One.")
    shell.types("\x03\x03")
    assert shell.ends() == 0
    (session,) = session_ids(str(ws.halo / "sessions"))
    conversation = SessionFolder(str(ws.halo / "sessions"), session).read()
    assert conversation.ended.reason == "interrupted"


def test_stop_acts_at_once_from_here_and_from_another_process(chat, ws, server):
    server.says(*slow("One. ", WAIT))
    server.says(*slow("Two. ", WAIT))
    shell = chat()
    shell.enters("Count.")
    shell.until("One.")
    shell.enters("/stop")
    shell.until("1 session was stopped")
    shell.enters("Again.")
    shell.until("Two.")
    other = ws.cli("run", "/stop", "--format", "json")
    assert other.returncode == 0, other.stderr
    answer = json.loads(other.stdout)
    assert (answer["command"], answer["text"]) == ("stop", "1 session was stopped")
    assert answer["values"] == {"stopped": 1, "kept": 0, "still": []}
    shell.until("ended: stopped")
    shell.types("\x04")
    assert shell.ends() == 0


def test_a_question_is_answered_in_the_prompt(chat, ws, server):
    path = ws.halo / "agents/default/agent.yaml"
    path.write_text(path.read_text() + 'policy: [{"tool": "grep", "action": "ask"}]\n')
    server.says_chat(*called("grep", '{"pattern": "Depth"}'))
    server.says_chat(*said("Found."))
    shell = chat()
    shell.enters("Search.")
    shell.types("half a thou")
    shell.until("Allow it? [y/N]")
    time.sleep(0.5)
    shell.enters("y")
    shell.until("Found.")
    shell.types("ght")
    shell.until("half a thought")
    assert any(
        m["role"] == "tool" and "Depth 7 m." in m["content"] for m in server.requests[-1].json["messages"]
    )
    shell.types("\x03\x03")
    assert shell.ends() == 0
    (history,) = (ws.home / "chat").iterdir()
    assert '"y"' not in history.read_text()


# Without a terminal.


def lines(ws, text, *arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "halo", "chat", *arguments],
        cwd=ws.root,
        env=ws.environ(OPENAI_API_KEY="sk-test-key", **more),
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_terminal_every_line_is_a_message_or_a_command(ws, server):
    server.says_chat(*called("grep", '{"pattern": "Depth"}'))
    server.says_chat(*said("Seven."))
    server.says_chat(*said("Eh?"))
    server.says_chat(*said("Hello again."))
    done = lines(ws, "How deep?\n\n/stat\r\n/think loud\n/verbose off\n/new And now?\n/status\n")
    assert done.returncode == 0, done.stderr
    assert "Seven.\n" in done.stdout
    assert "Hello again.\n" in done.stdout
    assert "verbose: off\n" in done.stdout
    assert "tool    grep Depth" in done.stderr
    assert "did you mean /status?" in done.stderr
    assert "halo: /think takes one of off, low, medium, high, inherit" in done.stderr
    assert "a new session begins" in done.stderr
    assert "verbose: off\n" in done.stdout.split("state: ")[1]


def test_it_goes_on_in_the_session_of_halo_run(ws, server):
    server.says_chat(*said("One."))
    server.says_chat(*said("Two."))
    assert ws.cli("run", "First.", OPENAI_API_KEY="k").returncode == 0
    done = lines(ws, "Second.\n")
    assert done.stdout == "Two.\n"
    assert asked(server) == ["First.", "Second."]


def test_a_model_is_set_for_the_session(ws, server):
    server.says_chat(*said("One."))
    (ws.halo / "settings.yaml").write_text(
        f"general: {{models: {{aliases: {{other: {{provider: openai, id: other-1, endpoint: {server.url}/v1}}}}}}}}\n"
    )
    done = lines(ws, "First.\n", "--profile", "other")
    assert done.returncode == 0, done.stderr
    assert server.requests[-1].json["model"] == "other-1"


def test_what_cannot_start_is_told_before_anything_is_typed(ws):
    done = lines(ws, "First.\n", "-a", "nobody")
    assert done.returncode == 2
    assert "unknown agent 'nobody'" in done.stderr
    assert lines(ws, "", "-s", "x", "-n").returncode == 2


# `halo run` knows the same commands.


def test_halo_run_does_commands(ws, server):
    shown = ws.cli("run", "/help")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].startswith("/help  ")
    assert "/tide [ARGUMENTS]" in shown.stdout
    assert list(session_ids(str(ws.halo / "sessions"))) == []
    answer = json.loads(ws.cli("run", "/verbose off", "--format", "json").stdout)
    assert list(answer) == ["format", "command", "session", "text", "values"]
    assert answer["values"] == {"verbose": "off"}
    line = json.loads(ws.cli("run", "/status", "--format", "ndjson").stdout)
    assert (line["type"], line["command"]) == ("command", "status")
    for refused in (ws.cli("run", "/think loud"), ws.cli("run", "--detach", "/stop")):
        assert refused.returncode == 2
        assert refused.stdout == ""
    server.says_chat(*said("Text."))
    assert ws.cli("run", " /help", OPENAI_API_KEY="k").stdout == "Text.\n"
    assert asked(server) == [" /help"]
