"""What of a turn is to be sent: its events in, payloads out. Pure: it knows no time and sends nothing.

The model's message, when it is over, is the truth; what was taken from deltas is part of it, and only the
rest is sent. Thoughts, tool calls and Halo's own notices are no part of an answer.
"""

from typing import Literal

from halo.models.adapter import Retrying, TextDelta
from halo.records.events import MessageAdded, TurnEnded
from halo.sessions.delivery.chunker import Chunker, chunks_of
from halo.sessions.delivery.chunks import Chunk
from halo.sessions.delivery.payloads import Kind, Payload
from halo.sessions.delivery.plan import Plan
from halo.sessions.delivery.silence import is_silent, may_become_silent

# The message is over: what was held back for merging is sent.
Flush = Literal["flush"]
FLUSH: Flush = "flush"


class Speech:
    """Follows one turn. With `internal` nothing of it is for anybody."""

    def __init__(self, plan: Plan, *, reply_to: str = "", internal: bool = False) -> None:
        self._plan, self._reply_to, self._internal = plan, reply_to, internal
        self._answers: list[str] = []  # whole messages, sent when the turn is over
        self.silent = False  # the last message said that there is no answer
        self.drafted = 0  # grows whenever a draft would show something else
        self._begin()
        self._given: list[Chunk] = []

    def _begin(self) -> None:
        """Begin a message, or the same one anew."""
        self._text = ""
        self._open = False  # it is an answer, whatever comes
        self._chunker = Chunker(self._plan.blocks)
        self._fed = 0  # characters of the text that the chunker has
        self._count = 0  # chunks that came out of it
        self._draft_chunker = Chunker(self._plan.draft_blocks)
        self._shown = 0  # characters of the text that a draft shows

    def take(self, event: object) -> tuple[Payload | Flush, ...]:
        """Take an event of the turn; return what is to be sent now."""
        if self._internal:
            return ()
        match event:
            case TextDelta():
                return self._more(event.text)
            case Retrying():
                self._begin()  # what was given stays given: the same words make the same chunks
            case MessageAdded() if event.message.role == "assistant":
                return () if event.internal else self._over(event.message.text)
            case TurnEnded():
                return self.end()
        return ()

    def end(self) -> tuple[Payload | Flush, ...]:
        """Return all that is left; what broke off without a message included. May be called again."""
        if self._internal:
            return ()
        left = self._over(self._text) if self._text else ()
        answers, self._answers = self._answers, []
        whole = self._plan.whole
        last = [self._payload(c, "final") for answer in answers for c in chunks_of(answer, whole)]
        return (*left, *last, FLUSH)

    @property
    def draft(self) -> str:
        """What a draft shows now: the message in which the text so far ends; empty for none."""
        text = self._text[: self._shown]
        chunks = chunks_of(text, self._plan.whole) if text else ()
        return chunks[-1].text if chunks else ""

    def _more(self, delta: str) -> tuple[Payload, ...]:
        self._text += delta
        self._open = self._open or not may_become_silent(self._text)
        if not self._open:
            return ()
        before = self._shown
        if self._plan.drafts == "partial":
            self._shown = len(self._text)
        elif self._plan.drafts == "block":
            seen = self._draft_chunker.feed(self._text[self._draft_chunker.taken :])
            self._shown += sum(len(chunk.source) + len(chunk.separator) for chunk in seen)
        self.drafted += self._shown != before
        return self._feed() if self._plan.streaming == "text_end" else ()

    def _feed(self, *, last: bool = False) -> tuple[Payload, ...]:
        """Give the chunker what it does not have yet; return what is new of what comes out."""
        chunks = list(self._chunker.feed(self._text[self._fed :]))
        self._fed = len(self._text)
        chunks += self._chunker.finish() if last else ()
        new: list[Payload] = []
        for chunk in chunks:
            if self._given[self._count : self._count + 1] != [chunk]:
                del self._given[self._count :]
                self._given.append(chunk)
                new.append(self._payload(chunk, "block"))
            self._count += 1
        return tuple(new)

    def _over(self, text: str) -> tuple[Payload | Flush, ...]:
        """Return what is left of a message whose text is `text`."""
        self.silent = is_silent(text)
        payloads: tuple[Payload, ...] = ()
        if self.silent or not text.strip():
            pass
        elif self._plan.streaming == "off":
            self._answers.append(text)
        elif self._plan.streaming == "message_end":
            payloads = tuple(self._payload(c, "block") for c in chunks_of(text, self._plan.blocks))
        else:
            self._settle(text)
            payloads = self._feed(last=True)
        self._begin()
        self._given = []
        return (*payloads, FLUSH)

    def _settle(self, text: str) -> None:
        """Make `text` the text of this message, whatever its deltas were; nothing is given twice."""
        said = self._text
        if text.startswith(said):
            self._text = text
        elif "".join(text.split()) != "".join(said.split()):
            given = "".join(chunk.source + chunk.separator for chunk in self._given)
            rest = remainder(text, given)
            self._begin()
            self._given = []
            self._text = text if rest is None else rest

    def _payload(self, chunk: Chunk, kind: Kind) -> Payload:
        return Payload.of(chunk, kind, reply_to=self._reply_to, alone=self._plan.whole.by_paragraph)


def remainder(text: str, given: str) -> str | None:
    """Return what of `text` comes behind `given`, white space aside; None if it does not begin so."""
    at = 0
    for char in given:
        if char.isspace():
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text) or text[at] != char:
            return None
        at += 1
    return text[at:].lstrip()
