"""The strategy `prune`: old results of tools become notes. Pure."""

from halo.records.events import Edit
from halo.records.messages import ToolResult
from halo.runner.context.notes import skill_calls, without_results
from halo.runner.context.units import View

# Results that stay, beside all that the model has not answered yet: about what it works with. A file that it
# edits, the test that fails, the search that led there and what it looked up on the way.
_RECENT = 5


def prune(view: View, _room: int) -> tuple[Edit, ...]:
    """Shorten all old results in one go: doing it little by little would cost the cache each time.

    The text of skills stays: half of the instructions would be followed as if they were all.
    """
    edits: list[Edit] = []
    recent = _RECENT
    for unit in reversed(view.units[: view.unanswered()]):
        called = view.messages[unit.start]
        tools = {call.id: call.name for call in called.calls}
        keep = skill_calls(called)
        for place in reversed(range(unit.start, unit.end)):
            message = view.messages[place]
            others = [
                b.call_id for b in message.content if isinstance(b, ToolResult) and b.call_id not in keep
            ]
            stay = others[max(0, len(others) - recent) :]
            recent -= len(stay)
            pruned = without_results(message, tools, keep | frozenset(stay))
            if pruned is not message:
                edits.append(Edit(place, place + 1, (pruned,)))
    return tuple(edits)
