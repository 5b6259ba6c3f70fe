"""The cap by number of messages: a ring buffer that never parts calls and results. Pure."""

from halo.records.events import Edit
from halo.runner.context.keeping import keep, leave_out, tasks
from halo.runner.context.units import View


def cap(view: View, most: int) -> tuple[Edit, ...]:
    """Leave out the oldest units of a history of more than `most` messages, down to about half of them.

    Taking out one for each that comes would send another beginning, and lose the cache, with every call.
    """
    if len(view.messages) <= most:
        return ()
    # One place is for the note.
    return leave_out(view, keep(view, tasks(view), most // 2 - 1, count=True), count=True)
