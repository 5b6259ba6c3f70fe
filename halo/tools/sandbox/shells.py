"""The shell that commands are written for."""

import os
from functools import cache

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


@cache
def shell() -> str:
    """Return the shell's path: bash where it is installed, else what every system has."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
