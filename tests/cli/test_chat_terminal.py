"""What is typed while a chat prints, or between two of its prompts, arrives as it was typed."""

import asyncio
import contextlib
import os
import sys
from types import SimpleNamespace

import pytest

from halo.cli.chat_complete import Words
from halo.cli.chat_history import TypedHistory
from halo.cli.chat_prompt import Prompt
from halo.sessions.commands.reports import Row

HANGS = 20  # seconds
ROWS = [Row(name, "") for name in ("/model", "/moderate", "/status")]


class Typist:
    """A user at a real terminal, who types `keys` once, at the moment `moment`."""

    def __init__(self, hand, keys, moment):
        self.hand, self.keys, self.moment = hand, keys, moment
        self.taken = []
        self.screen = ""

    async def chats(self, prompt):
        self.prompt, prompt._out = prompt, self
        talk = SimpleNamespace(take=self.take, busy=False, waiting=0, choice=SimpleNamespace(folder=None))
        self.types("first\r")
        await asyncio.wait_for(prompt.run(talk), HANGS)

    def echo(self):
        """What the terminal wrote by itself since it was last asked."""
        os.set_blocking(self.hand, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self.hand, 65536).decode()
        return ""

    def types(self, keys):
        os.write(self.hand, keys.encode())

    def comes(self, moment):
        if moment == self.moment:
            self.moment = "over"
            self.types(self.keys)

    def take(self, text):
        """A line was entered: the next prompt is not there yet."""
        if not self.taken:
            self.echo()  # of what was typed before the first prompt
        self.taken.append(text)
        self.comes("between")
        self.prompt.screen.line("An answer.")

    def write(self, text):
        """The chat prints."""
        self.screen += text
        if "An answer." in text:
            self.comes("printing")

    def flush(self):
        pass


@pytest.fixture
def terminal(monkeypatch):
    pty = pytest.importorskip("pty")
    hand, inner = pty.openpty()
    with os.fdopen(inner) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield hand
    os.close(hand)


@pytest.mark.parametrize("moment", ["printing", "between"])
@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        ("\x04", []),
        ("\x03\x03", []),
        ("secnd\x1b[D\x1b[Do\r\x04", ["second"]),
        ("secone\x7fd\r\x04", ["second"]),
        ("one\x1b\rtwo\r\x04", ["one\ntwo"]),
        ("not this\x15second\r\x04", ["second"]),
        ("second\n\x04", ["second"]),
        ("/sta\t\r\x04", ["/status"]),
        ("/mo\tx\r\x04", ["/modex"]),
        ("/mo\t\t\t\r\x04", ["/moderate"]),
        ("nothing\t\r\x04", ["nothing"]),
    ],
    ids=[
        "Ctrl-D",
        "Ctrl-C twice",
        "arrows",
        "Backspace",
        "Alt-Enter",
        "Ctrl-U",
        "Ctrl-J",
        "Tab",
        "Tab for a part",
        "Tab for a choice",
        "Tab for nothing",
    ],
)
def test_no_key_is_lost_or_changed(terminal, tmp_path, moment, keys, taken):
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.output import DummyOutput

    typist = Typist(terminal, keys, moment)
    with create_app_session(output=DummyOutput()):
        history = TypedHistory(str(tmp_path), "/w", lambda text: text)
        asyncio.run(typist.chats(Prompt(Words(lambda: ROWS, list, lambda folder: []), history)))
    assert typist.taken == ["first", *taken]
    assert "An answer." in typist.screen
    assert typist.echo() == ""
