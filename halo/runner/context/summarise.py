"""The strategy `summarise`: the model sums up old units. What is asked, what becomes of the answer. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from halo.models.adapter import Finished
from halo.records.events import Edit
from halo.records.messages import Message, user
from halo.runner.context.keeping import Kept, arranged, gaps, has_skill, keep, tasks
from halo.runner.context.notes import is_note, summary_message
from halo.runner.context.prune import prune
from halo.runner.context.truncate import truncate
from halo.runner.context.units import View
from halo.runner.record import applied

INSTRUCTION = user(
    """\
The conversation has become long. Everything above will be replaced by a summary, which you write now and from
which you will go on. Whatever is not in it is lost.

Keep:
- each task that the user set, in the user's words, and how far it is: done, under way, still to do;
- what was decided or promised, by whom, and why;
- what was found out: facts, results, what failed and with which error;
- names, paths, identifiers, addresses, numbers and commands, exactly as they are written;
- what the user wants done or avoided in general;
- questions that are open, and the next step.

Leave out how it came to that, greetings, and the content of files that can be read again. If there is a
summary above already, take over what still holds. Write in the language of the conversation. Call no tools,
answer none of the questions above, and write nothing but the summary."""
)


_WISHES = "\n\nThe user asks for this in particular:\n\n"

_AGAIN = """\
The summary lacks what has to be in it word for word:

{missing}

Write the whole summary once more, with all of that where it belongs. Call no tools, and write nothing but the
summary."""


class Plan(NamedTuple):
    """What a summary would replace: all of `view` that does not stay."""

    view: View
    kept: Kept

    @property
    def replaced(self) -> tuple[Message, ...]:
        """The messages that it would replace."""
        view = self.view
        return tuple(m for gap in gaps(view, self.kept) for m in view.messages[gap.start : gap.end])

    @property
    def weight(self) -> int:
        """Their tokens."""
        return sum(map(self.view.weight, gaps(self.view, self.kept)))


def plan(view: View, room: int) -> Plan | None:
    """Choose what is summed up, so that the rest fills about half of `room`, and the summary the other.

    All that the model has not answered yet stays. None where there is too little to be worth a call.
    """
    fixed = tasks(view) | frozenset(range(view.unanswered(), len(view.units)))
    planned = Plan(view, keep(view, fixed, room // 2))
    return planned if planned.weight >= room // 4 else None


def plan_all(view: View, room: int) -> Plan | None:
    """Choose all that may be summed up, because the user wants a summary: tasks and skills stay.

    None where nothing is left for it.
    """
    fixed = tasks(view) | frozenset(range(view.unanswered(), len(view.units)))
    kept = keep(view, fixed, room)
    skills = kept.skills | {n for n in kept.whole - fixed if has_skill(view, view.units[n])}
    planned = Plan(view, Kept(fixed, skills))
    return planned if any(not is_note(message) for message in planned.replaced) else None


def instruction(wishes: str = "") -> Message:
    """Return what asks for a summary; `wishes` are the user's own words about it."""
    return user(f"{INSTRUCTION.text}{_WISHES}{wishes}") if wishes else INSTRUCTION


def answered(view: View) -> tuple[Message, ...]:
    """Return a history without what is not answered yet: it stays anyway."""
    first = view.unanswered()
    end = view.units[first].start if first < len(view.units) else len(view.messages)
    return view.messages[:end]


def shorter(messages: tuple[Message, ...], room: int) -> tuple[Message, ...]:
    """Return a history that the model's window can hold, where the whole was too long."""
    for strategy in (prune, truncate):
        messages = applied(messages, strategy(View.over(messages), room))
    return messages


def again(asked: tuple[Message, ...], summary: Message, missing: Sequence[str]) -> tuple[Message, ...]:
    """Return the history of the call that asks once more, and names what the first summary lacks."""
    lines = "\n".join(f"- {line}" for line in missing)
    return (*asked, summary, user(_AGAIN.format(missing=lines)))


def usable(finished: Finished) -> str:
    """Say why a reply is no summary; empty where it is one."""
    if finished.stop_reason == "max_tokens":
        return "the summary was cut off"
    if finished.stop_reason != "end" or finished.message.calls:
        return "the model did something else"
    return "" if finished.message.text.strip() else "the summary was empty"


def with_summary(planned: Plan, text: str) -> tuple[Edit, ...]:
    """Put the summary in the place of the first gap, and nothing into the others."""
    view, kept = planned
    edits: list[Edit] = []
    for gap in gaps(view, kept):
        edits.append(Edit(gap.start, gap.end, () if edits else (summary_message(text.strip()),)))
    return arranged(view, kept, edits)
