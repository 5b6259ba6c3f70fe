"""A summary from the model: asked for, checked for what it lost, asked for again, and completed."""

from functools import partial
from typing import NamedTuple

from halo.models.adapter import Notice
from halo.runner.context.asking import Answer, Asking, Meanwhile
from halo.runner.context.summarise import Plan, again, answered, instruction, shorter, usable
from halo.runner.context.surviving import appendix, missing_from

# The part of what a summary replaces that may stand behind it word for word.
_PART = 4


class Summary(NamedTuple):
    """What asking came to: the text, or why there is none; what it cost and what was said meanwhile."""

    text: str
    problem: str
    events: tuple[Meanwhile, ...]


async def summary_of(asking: Asking, planned: Plan, room: int, wishes: str = "") -> Summary:
    """Ask for a summary of what `planned` replaces. What it lacks after a second try stands behind it."""
    events: list[Meanwhile] = []
    shorten = partial(shorter, room=room)
    first = await asking.ask(answered(planned.view), instruction(wishes), shorten, events)
    text, problem = _text(first)
    if problem:
        return Summary("", problem, tuple(events))
    missing = missing_from(text, planned.replaced)
    if missing and first.finished is not None:
        *asked, question = again(first.asked, first.finished.message, missing)
        second = await asking.ask(tuple(asked), question, shorten, events)
        better, problem = _text(second)
        if problem:
            events.append(Notice(f"note: the summary was not completed: {problem}"))
        else:
            left = missing_from(better, planned.replaced)
            text, missing = (better, left) if len(left) < len(missing) else (text, missing)
    if missing:
        text = f"{text.rstrip()}\n\n{appendix(missing, planned.weight // _PART)}"
    return Summary(text, "", tuple(events))


def _text(answer: Answer) -> tuple[str, str]:
    """Return the text of an answer that is a summary, or why it is none."""
    if answer.finished is None:
        return "", answer.problem
    problem = usable(answer.finished)
    return ("" if problem else answer.finished.message.text.strip()), problem
