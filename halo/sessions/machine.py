"""What a prompt says of the machine that a turn runs on, if it asks: never a user or a host name."""

from collections.abc import Iterable
from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Slot
from halo.version import __version__
from halo.workspace.settings.general import read_general
from halo.workspace.time_zone import is_zone_name, machine_zone_name


class Machine(NamedTuple):
    """`runtime` is system, architecture and versions on one line; `time_zone` an IANA name.

    Empty: not asked for, or unknown.
    """

    runtime: str = ""
    time_zone: str = ""


def this_machine(slots: Iterable[Slot]) -> Machine:
    """Find out what `slots` ask for, and nothing else: either costs imports."""
    wanted = {slot.name for slot in slots if slot.origin == "builtin"}
    return Machine(
        runtime=_runtime() if "runtime" in wanted else "",
        time_zone=local_zone_name() if "time_zone" in wanted else "",
    )


def _runtime() -> str:
    import platform

    system, machine = platform.system() or "unknown system", platform.machine() or "unknown machine"
    return f"{system} {machine}, Python {platform.python_version()}, Halo {__version__}"


def user_zone_name(tree: Tree) -> str:
    """Name the user's time zone, by the settings or by the machine; empty if unknown."""
    named = machine_zone_name(tree) or read_general(tree).prompt.time_zone
    return named if is_zone_name(named) else local_zone_name()


def local_zone_name() -> str:
    """Name the zone that this machine is set to: `TZ`, or the system's own setting; empty if unknown."""
    from tzlocal import get_localzone_name

    try:
        return get_localzone_name() or ""
    except (LookupError, OSError, ValueError):
        return ""  # settings that contradict each other; the caller says that it is not known
