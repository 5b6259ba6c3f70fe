"""Time zones as settings name them: `local`, or a name of the IANA database. Never a time."""

import re

from halo.files.tree import Tree
from halo.workspace.settings.files import GLOBAL_SETTINGS, lookup, read_settings

LOCAL = "local"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(?:/[A-Za-z0-9][A-Za-z0-9_+-]{0,30}){0,3}")


def is_zone_name(text: str) -> bool:
    """Tell whether `text` has the shape of an IANA name, such as `Europe/Oslo` or `Etc/GMT+5`.

    Whether there is such a zone depends on the database of a machine, so nothing that is compiled may ask.
    """
    return _NAME.fullmatch(text) is not None and text != LOCAL


def machine_zone_name(tree: Tree) -> str:
    """Return the time zone that the settings of this machine name; empty where they name none."""
    setting = lookup(read_settings(tree, GLOBAL_SETTINGS), "general.prompt.time_zone")
    return setting.text if setting is not None and is_zone_name(setting.text) else ""
