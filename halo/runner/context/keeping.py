"""What stays when a history is cut: what is being worked on, skills, then the newest units. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from halo.records.events import Edit
from halo.records.messages import Message
from halo.runner.context.notes import LEFT_OUT, invokes_skill, is_note, skill_calls, without_results
from halo.runner.context.units import Unit, View, asks
from halo.runner.record import message_tokens


class Kept(NamedTuple):
    """Numbers of units: `whole` ones, and those of which only the texts of `skills` are wanted."""

    whole: frozenset[int]
    skills: frozenset[int]


def tasks(view: View) -> frozenset[int]:
    """Return the last unit, and the user's message that the model is working on."""
    last = len(view.units) - 1
    for number in range(last, -1, -1):
        message = view.messages[view.units[number].start]
        if asks(message) and not is_note(message):
            return frozenset((number, last))
    return frozenset((last,)) if last >= 0 else frozenset()


def keep(view: View, fixed: Iterable[int], room: int, *, count: bool = False) -> Kept:
    """Choose what stays within `room` tokens, or messages (`count`). `fixed` units stay whatever they take.

    Skills come next, as far as they fill half of what is left, so that they go last, not first. Then units
    from the newest to the oldest. One that is too large by itself is passed over: it must not hide all older
    ones.
    """

    def cost(number: int) -> int:
        unit = view.units[number]
        return unit.end - unit.start if count else view.weight(unit)

    whole = set(fixed)
    left = room - sum(map(cost, whole))
    rest = [number for number in reversed(range(len(view.units))) if number not in whole]
    skills: dict[int, int] = {}
    half = left // 2
    for number in rest:
        unit = view.units[number]
        if not has_skill(view, unit):
            continue
        price = cost(number) - (0 if count else _spared(view, unit))
        if price <= half:
            skills[number] = price
            half -= price
    left -= sum(skills.values())
    for number in rest:
        price = cost(number) - skills.get(number, 0)
        if price <= left:
            whole.add(number)
            left -= price
        elif price <= room // 2:
            break
    return Kept(frozenset(whole), frozenset(skills) - whole)


def gaps(view: View, kept: Kept) -> list[Unit]:
    """Return the stretches of messages that do not stay."""
    found: list[Unit] = []
    for number, unit in enumerate(view.units):
        if number in kept.whole or number in kept.skills:
            continue
        if found and found[-1].end == unit.start:
            found[-1] = Unit(found[-1].start, unit.end)
        else:
            found.append(unit)
    return found


def leave_out(view: View, kept: Kept, *, count: bool = False) -> tuple[Edit, ...]:
    """Leave out what does not stay, with a note in its place unless that weighs more than what it stands for.

    Where messages `count`, only the beginning of a history has a note. What remains begins with a user's
    message in any case.
    """
    edits: list[Edit] = []
    note = message_tokens(LEFT_OUT)
    for gap in gaps(view, kept):
        if view.messages[gap.start : gap.end] == (LEFT_OUT,):
            continue
        heavy = note >= view.weight(gap)
        bare = gap.start > 0 or (gap.end < len(view.messages) and asks(view.messages[gap.end]))
        if bare and (heavy or (count and gap.start > 0)):
            edits.append(Edit(gap.start, gap.end))
        elif count or not heavy:
            edits.append(Edit(gap.start, gap.end, (LEFT_OUT,)))
    return arranged(view, kept, edits)


def arranged(view: View, kept: Kept, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Complete the edits of gaps: shorten units that stay for their skills, begin with a user's message.

    From the end to the beginning, so that no edit moves the place of another.
    """
    found = [*edits]
    cut = bool(found) and found[0].start == 0
    for number in kept.skills:
        for place, message in _lean(view, view.units[number]):
            if message is not view.messages[place]:
                found.append(Edit(place, place + 1, (message,)))
    if found and not cut and not asks(view.messages[0]):
        found.append(Edit(0, 0, (LEFT_OUT,)))
    return tuple(sorted(found, key=lambda edit: (edit.start, edit.end), reverse=True))


def has_skill(view: View, unit: Unit) -> bool:
    """Tell whether a unit holds the text of a skill."""
    message = view.messages[unit.start]
    return bool(skill_calls(message)) or invokes_skill(message)


def _lean(view: View, unit: Unit) -> Iterable[tuple[int, Message]]:
    called = view.messages[unit.start]
    tools = {call.id: call.name for call in called.calls}
    for place in range(unit.start, unit.end):
        yield place, without_results(view.messages[place], tools, skill_calls(called))


def _spared(view: View, unit: Unit) -> int:
    """Return the tokens of a unit beside its skills."""
    return sum(
        view.weights[place] - message_tokens(message)
        for place, message in _lean(view, unit)
        if message is not view.messages[place]
    )
