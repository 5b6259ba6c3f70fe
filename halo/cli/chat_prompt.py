"""The prompt of a chat on a terminal: editing, completion, keys, and what is printed above it."""

import asyncio
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI, FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from halo.cli.asking import question_text
from halo.cli.chat_complete import Words, candidates
from halo.cli.chat_history import TypedHistory
from halo.cli.chat_screen import Screen
from halo.cli.chat_talk import Talk
from halo.cli.chat_terminal import terminal_input

if TYPE_CHECKING:
    from halo.tools.consent import Question

LABEL = "> "
_AGAIN = 2.0  # seconds in which a second Ctrl-C leaves
_TOO_SOON = 0.4  # seconds: whoever typed before the question was there has not answered it
_YES = frozenset({"y", "yes"})
_VIEW = frozenset({"v", "view"})


class Prompt:
    """Reads what is typed while turns run, and prints what they say."""

    def __init__(self, words: Words, history: TypedHistory) -> None:
        self._news = asyncio.Event()
        self._out = sys.stdout
        self.screen = Screen(self._own, _width, self._changed)
        self.talk: Talk | None = None
        self._question: _Asked | None = None
        self._again = 0.0  # until then Ctrl-C leaves
        self._input = terminal_input()
        self._session: PromptSession[str] = PromptSession(
            input=self._input,
            message=self._message,
            bottom_toolbar=self._toolbar,
            completer=_Completer(words),
            complete_while_typing=False,
            history=_History(history, self),
            key_bindings=self._keys(),
            erase_when_done=True,
        )
        self._session.app.ttimeoutlen = 0.1
        self._session.app.timeoutlen = 0.3
        self._session.app.min_redraw_interval = 0.05

    async def run(self, talk: Talk) -> None:
        """Read until the user leaves."""
        self.talk = talk
        printing = asyncio.create_task(self._print_news())
        try:
            with self._input.raw_mode(), patch_stdout(raw=True):
                while True:
                    try:
                        text = await self._session.prompt_async()
                    except EOFError:
                        return
                    self._typed(text)
        finally:
            printing.cancel()
            await asyncio.wait([printing])
            self.flush()

    async def ask(self, question: "Question") -> bool:
        """Ask about a call: the next line is the answer, and what was typed before it stays."""
        answer = await self._ask(question_text(question))
        if answer in _VIEW:
            answer = await self._ask(question_text(question, whole=True))
        return answer in _YES

    @property
    def asking(self) -> bool:
        """Whether the next line is an answer."""
        return self._question is not None

    def flush(self) -> None:
        """Print what is there to be printed."""
        text = self.screen.take()
        if text:
            self._out.write(text)
            self._out.flush()

    def _typed(self, text: str) -> None:
        asked, loop = self._question, asyncio.get_running_loop()
        if asked is not None:
            if loop.time() - asked.since > _TOO_SOON and not asked.answer.done():
                self.screen.said(text, asked.label)
                asked.answer.set_result(text.strip().lower())
            return
        if text.strip() and self.talk is not None:
            self.screen.said(text, LABEL)
            self.talk.take(text)

    async def _ask(self, text: str) -> str:
        *lines, label = text.split("\n")
        self.screen.line("\n".join(lines), dim=False)
        buffer = self._session.default_buffer
        before = buffer.document
        buffer.reset()
        loop = asyncio.get_running_loop()
        self._question = _Asked(label, loop.time(), loop.create_future())
        try:
            return await self._question.answer
        finally:
            self._question = None
            buffer.document = before
            self._changed()

    def _own(self) -> str:
        folder = self.talk.choice.folder if self.talk is not None else None
        return folder.id if folder is not None else ""

    def _changed(self) -> None:
        self._news.set()
        self._session.app.invalidate()

    async def _print_news(self) -> None:
        """Print what is whole above the prompt; the prompt is taken away and drawn again in one step."""
        while True:
            await self._news.wait()
            self._news.clear()
            await run_in_terminal(self.flush)

    def _message(self) -> ANSI:
        """Return what stands before the cursor: the block that still grows, then the label."""
        label = self._question.label if self._question is not None else LABEL
        if self._session.app.is_done:
            return ANSI(label)
        return ANSI(self.screen.preview(shutil.get_terminal_size().lines) + label)

    def _toolbar(self) -> FormattedText:
        waiting = self.talk.waiting if self.talk is not None else 0
        return FormattedText([("", self.screen.footer.text(self._own(), waiting))])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            now = asyncio.get_running_loop().time()
            if now < self._again:
                event.app.exit(exception=EOFError)
                return
            self._again = now + _AGAIN
            if self.talk is not None and self.talk.busy:
                self.talk.interrupt()
                self.screen.line("stopped; Ctrl-C once more leaves")
            elif event.current_buffer.text:
                event.current_buffer.reset()
            else:
                self.screen.line("Ctrl-C once more leaves, and so does Ctrl-D")

        @keys.add("escape")
        def _(event: KeyPressEvent) -> None:
            del event
            if self.talk is not None and self.talk.busy:
                self.talk.interrupt()

        @keys.add("tab")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.complete_state is None:
                _complete(event.current_buffer)
            else:
                event.current_buffer.complete_next()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


class _Asked:
    """A question that is open: its label, since when (of the loop's clock), and the answer to come."""

    def __init__(self, label: str, since: float, answer: "asyncio.Future[str]") -> None:
        self.label, self.since, self.answer = label, since, answer


class _Completer(Completer):
    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        for found in candidates(document.text_before_cursor, self._words):
            yield Completion(found.text, -found.length, display_meta=found.about)


def _complete(buffer: Buffer) -> None:
    """Complete at once, as a shell does: prompt_toolkit's own way loses a Tab that Enter follows too soon."""
    event = CompleteEvent(completion_requested=True)
    found = list(buffer.completer.get_completions(buffer.document, event))
    if len(found) == 1:
        buffer.apply_completion(found[0])
        return
    if common := get_common_complete_suffix(buffer.document, found):
        buffer.insert_text(common)
        found = [each.new_completion_from_position(len(common)) for each in found]
    if found:
        buffer.complete_state = CompletionState(buffer.document, found)
        buffer.on_completions_changed.fire()


class _History(History):
    """The entries of a file, without answers to questions."""

    def __init__(self, kept: TypedHistory, prompt: Prompt) -> None:
        super().__init__()
        self._kept, self._prompt = kept, prompt

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._kept.load())

    def append_string(self, string: str) -> None:
        if not self._prompt.asking:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        self._kept.add(string)


def _width() -> int:
    return shutil.get_terminal_size().columns
