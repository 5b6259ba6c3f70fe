"""The strategy `truncate`: the oldest units are left out. Pure."""

from halo.records.events import Edit
from halo.runner.context.keeping import keep, leave_out, tasks
from halo.runner.context.units import View


def truncate(view: View, room: int) -> tuple[Edit, ...]:
    """Leave out what does not fit into `room` tokens, the oldest first."""
    return leave_out(view, keep(view, tasks(view), room))
