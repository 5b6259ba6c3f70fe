"""What is written down before a history loses something: notes, from a call beside the conversation."""

from functools import partial
from typing import Protocol

from halo.models.adapter import Notice
from halo.records.messages import Message
from halo.records.session_events import MemoryFlushed
from halo.runner.context.asking import Asking, Meanwhile
from halo.runner.context.summarise import answered, shorter
from halo.runner.context.units import View


class Flush(Protocol):
    """Where notes go; whoever has one decides when they are due, and writes them."""

    def begin(self) -> Message | MemoryFlushed | None:
        """Return what the model is asked; a record of why it is not asked; None where it was already."""

    def keep(self, text: str) -> MemoryFlushed:
        """Write down the notes of an answer."""


async def flush_notes(
    flush: Flush, asking: Asking, view: View, room: int, *, too_long: bool
) -> tuple[MemoryFlushed | Meanwhile, ...]:
    """Ask for notes and have them kept. A failure is told and stops nothing: what follows is needed.

    `too_long`: the provider has just refused the whole history; then a shorter copy is asked about at once.
    """
    question = flush.begin()
    if question is None:
        return ()
    if isinstance(question, MemoryFlushed):
        return (question,)
    events: list[Meanwhile] = []
    about = answered(view)
    about = shorter(about, room) if too_long else about
    answer = await asking.ask(about, question, partial(shorter, room=room // 2), events)
    finished, problem = answer.finished, answer.problem
    if finished is not None and (finished.message.calls or finished.stop_reason not in ("end", "max_tokens")):
        problem = "the model did something else"
    if finished is None or problem:
        told = Notice(f"warning: no notes were kept of the conversation: {problem}")
        return (*events, told, MemoryFlushed(skipped=problem))
    return (*events, flush.keep(finished.message.text))
