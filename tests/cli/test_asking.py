"""`ask` in a policy: on a real terminal, and without one."""

import contextlib
import json
import os
import re
import select
import struct
import subprocess
import sys
import time

import pytest
from making import agent
from turning import ScriptedServer

from halo.cli.asking import question_text
from halo.tools.consent import Question

NEEDLE = "notes/a.md:1:needle"


def called(name, arguments):
    """A streamed reply that calls a tool."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
    call = {
        "index": 0,
        "id": "a",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    delta = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    return [{**base, "choices": [delta]}, {**base, "choices": [end]}]


def said(text):
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [{**base, "choices": [delta]}, {**base, "choices": [end]}]


@pytest.fixture
def server():
    made = ScriptedServer()
    made.says_chat(*called("grep", '{"pattern": "needle"}'))
    made.says_chat(*said("Done."))
    yield made
    made.close()


@pytest.fixture
def ws(make_workspace, server):
    """A workspace whose agent may use grep when the user says so."""
    model = {"provider": "openai", "id": "m", "endpoint": f"{server.url}/v1"}
    return make_workspace(
        {
            ".halo/USER.md": "Mira.\n",
            ".halo/agents/default/agent.yaml": agent(
                model=model, tools=["grep"], policy=[{"tool": "grep", "action": "ask"}]
            ),
            ".halo/agents/default/AGENT.md": "You search.\n",
            "notes/a.md": "needle\n",
        }
    )


def result(server):
    """What the model was told about its call."""
    (message,) = [m for m in server.requests[-1].json["messages"] if m["role"] == "tool"]
    return message["content"]


class Terminal:
    """`halo run`, or another command, on a terminal of its own."""

    def __init__(self, ws, *arguments, command="run", environ=None, **streams):
        import fcntl
        import pty
        import termios

        self.fd, inner = pty.openpty()
        self.shown = ""
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        stdout = subprocess.DEVNULL if command == "run" else inner
        ends = {"stdin": inner, "stdout": stdout, "stderr": inner, **streams}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "halo", command, *arguments],
            cwd=ws.root,
            env=ws.environ(OPENAI_API_KEY="sk-test-key", **(environ or {})),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(inner, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # its own terminal
            **ends,
        )
        os.close(inner)

    def until(self, text, seconds=60):
        """Read until `text` is shown."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode()
                except OSError:  # the last one has closed it
                    assert text in self.shown, self.shown

    def types(self, text):
        os.write(self.fd, text.encode())

    def ends(self, seconds=60):
        """Read to the end, and tell with what status it ended."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(OSError):  # the last one has closed it
            while select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                self.shown += os.read(self.fd, 65536).decode("utf-8", "replace")
            pytest.fail(f"it runs on: {self.shown}")
        return self.process.wait(seconds)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


@pytest.fixture
def terminal(ws):
    pytest.importorskip("pty")
    opened = []

    def start(*arguments, **streams):
        opened.append(Terminal(ws, *arguments, **streams))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def asked_for_each(terminal, server, answers):
    """A turn with a call for each answer, which is typed when the question is there; tells how it ended."""
    server.script.clear()
    for number in range(len(answers)):
        server.says_chat(*called("grep", json.dumps({"pattern": "needle"[number:]})))
    server.says_chat(*said("Done."))
    shell = terminal("Search.")
    for answer in answers:
        shell.until("[y/N] ")
        shell.shown = ""
        shell.types(answer)
    assert shell.ends() == 0
    told = [m["content"] for m in server.requests[-1].json["messages"] if m["role"] == "tool"]
    assert len(told) == len(answers)
    return told


def test_the_question_shows_the_call_and_why_it_is_asked(terminal, server):
    shell = terminal("Search.")
    shell.until("Allow it? [y/N] ")
    assert "The agent asks to run grep:" in shell.shown
    assert '  | {"pattern": "needle"}' in shell.shown
    assert (
        "You are asked because the rule `ask grep` (.halo/agents/default/agent.yaml:3) speaks of it"
        in shell.shown
    )
    shell.types("y\n")
    assert shell.ends() == 0
    assert result(server) == NEEDLE


def test_yes_lets_it_run(terminal, server):
    assert asked_for_each(terminal, server, ["Y\n", " yes \n"]) == [NEEDLE] * 2


def test_anything_else_does_not(terminal, server):
    told = asked_for_each(terminal, server, ["n\n", "\n", "yes please\n", "\x04"])
    assert ["the user was asked and said no" in text for text in told] == [True] * 4


def test_what_was_typed_before_the_question_is_no_answer(terminal, server):
    shell = terminal("Search.")
    shell.types("y\ny\n")
    shell.until("[y/N] ")
    time.sleep(0.3)
    assert shell.process.poll() is None
    shell.types("n\n")
    assert shell.ends() == 0
    assert "said no" in result(server)


def test_a_message_that_is_piped_in_does_not_hinder(terminal, server):
    shell = terminal(stdin=subprocess.PIPE)
    shell.process.stdin.write(b"Search.")
    shell.process.stdin.close()
    shell.until("[y/N] ")
    shell.types("y\n")
    assert shell.ends() == 0
    assert result(server) == NEEDLE


def test_ctrl_c_ends_the_turn(terminal, server):
    shell = terminal("Search.")
    shell.until("[y/N] ")
    shell.types("\x03")
    assert shell.ends() == 130
    assert "Traceback" not in shell.shown
    assert len(server.requests) == 1


def test_nobody_is_asked_where_nobody_would_see_it(terminal, server, tmp_path):
    """stderr goes to a file, so the question would stand there."""
    with open(tmp_path / "log", "wb") as log:
        shell = terminal("Search.", stderr=log)
        assert shell.ends() == 0
    assert "nobody is there to give it" in result(server)


def test_without_a_terminal_it_is_denied(ws, server):
    process = subprocess.Popen(
        [sys.executable, "-m", "halo", "run", "Search."],
        cwd=ws.root,
        env=ws.environ(OPENAI_API_KEY="sk-test-key"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == "Done.\n"
    assert "nobody is there to give it. Do not try it again." in result(server)


def test_the_machine_adds_rules_and_never_takes_any_away(ws, server):
    rules = "general: {tools: {policy: [{tool: grep, action: %s}]}}\n"
    secrets = ws.home / "secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    (secrets / "settings.yaml").write_text(rules % "deny")
    shown = ws.cli("run", "Search.", OPENAI_API_KEY="k")
    assert shown.returncode == 0
    why = "grep was not run: the rule `deny grep` (secrets:settings.yaml:1) speaks of it"
    assert re.search(r"^tool    grep needle \(\d+ ms\) failed: grep was not run", shown.stderr, re.MULTILINE)
    assert f'{why}. The call: {{"pattern": "needle"}}.' in shown.stderr
    assert why in result(server)
    server.says_chat(*called("grep", '{"pattern": "needle"}'))
    server.says_chat(*said("Done."))
    (secrets / "settings.yaml").write_text(rules % "allow")
    assert ws.cli("run", "-n", "Search.", OPENAI_API_KEY="k").returncode == 0
    assert "nobody is there" in result(server)


def test_a_policy_alone_leaves_the_fingerprint(ws):
    before = ws.cli("prompt").stdout
    path = ws.halo / "agents/default/agent.yaml"
    path.write_text(path.read_text().replace("ask", "deny"))
    assert ws.cli("prompt").stdout == before


# what is shown


def test_a_question_shows_every_line_and_nothing_acts():
    text = question_text(Question("shell_exec", "ls\nrm -rf x \x1b[2K\r\u202ehidden"))
    assert text.splitlines()[1:] == [
        "The agent asks to run shell_exec:",
        "  | ls",
        "  | rm -rf x \\x1b[2K\\r\\u202ehidden",
        "Allow it? [y/N] ",
    ]


def test_a_question_says_why_it_is_asked():
    text = question_text(Question("shell_exec", "ls", "the rule `ask *` speaks of it"))
    assert text.endswith("  | ls\nYou are asked because the rule `ask *` speaks of it.\nAllow it? [y/N] ")


def test_a_question_says_what_it_does_not_show():
    question = Question("file_write", "x" * 10_000 + "\nthe end")
    text = question_text(question)
    assert "[2,008 more characters are not shown; v shows all of it]" in text
    assert text.endswith("Allow it? [y/N/v] ")
    assert len(text) < 9_000
    whole = question_text(question, whole=True)
    assert "  | the end\nAllow it? [y/N] " in whole
    assert "x" * 10_000 in whole


@pytest.mark.parametrize(("answer", "allowed"), [("y\n", True), ("n\n", False), ("v\n", False)])
def test_all_of_a_long_call_can_be_looked_at_first(ws, answer, allowed):
    """On a real terminal; whoever only looks has not agreed."""
    long = {"pattern": "needle", "include": "*.md" + ",*.md" * 2_000 + ",*.end"}
    with contextlib.closing(ScriptedServer()) as server:
        server.says_chat(*called("grep", json.dumps(long)))
        server.says_chat(*said("Done."))
        path = ws.halo / "agents/default/agent.yaml"
        path.write_text(re.sub(r"http://127\.0\.0\.1:\d+", server.url, path.read_text()))
        with contextlib.closing(Terminal(ws, "Search.")) as shell:
            shell.until("[y/N/v] ")
            assert "more characters are not shown; v shows all of it" in shell.shown
            assert "*.end" not in shell.shown
            shell.types("v\n")
            shell.until("[y/N] ")
            assert "*.end" in shell.shown
            shell.types(answer)
            assert shell.ends() == 0
        assert ("said no" not in result(server)) == allowed
