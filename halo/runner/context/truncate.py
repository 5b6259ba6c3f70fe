"""The strategy `truncate`: the oldest units are left out. Pure."""

from halo.records.events import Edit
from halo.runner.context.keeping import keep, leave_out, tasks
from halo.runner.context.notes import LEFT_OUT
from halo.runner.context.units import View
from halo.runner.record import message_tokens


def truncate(view: View, room: int) -> tuple[Edit, ...]:
    """Leave out what does not fit into `room` tokens, the oldest first."""
    if sum(view.weights) <= room:
        return ()
    return leave_out(view, keep(view, tasks(view), room - message_tokens(LEFT_OUT)))
