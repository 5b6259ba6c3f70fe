"""Commands without a sandbox, for access `full`: with the user's rights, but without the environment."""

import os
from collections.abc import Mapping

from halo.tools.base import ToolFailure
from halo.tools.sandbox.base import Executed
from halo.tools.sandbox.processes import run_process
from halo.tools.sandbox.shells import shell

# An allow-list: keys and tokens stand in variables of any name.
_KEPT = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TERM",
        "TZ",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
    }
)


class DirectCommands:
    """Runs commands in the workspace root as the user would, with a clean environment."""

    def __init__(self, workspace: str, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environment = clean(environ)

    async def execute(self, command: str, environment: Mapping[str, str], seconds: float) -> Executed:
        """Run `command`; see `halo.tools.sandbox.base.Commands`."""
        if os.name == "nt":
            raise ToolFailure("shell commands cannot be run on Windows yet; use the file tools")
        try:
            return await run_process(
                [shell(), "-c", command], {**self._environment, **environment}, self._workspace, seconds
            )
        except (OSError, ValueError) as error:
            raise ToolFailure(not_started(error)) from error


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what commands get of an environment: where programs lie, the language, the terminal."""
    return {name: value for name, value in environ.items() if name in _KEPT or name.startswith("LC_")}


def not_started(error: OSError | ValueError) -> str:
    """Say to a model why a command did not even start."""
    import errno

    if not isinstance(error, OSError):  # a NUL, or half of a surrogate pair
        return "the command holds a character that no command can be given; write it to a file and use that"
    if error.errno == errno.E2BIG:
        return "the command is too long; write it to a file and run that"
    return f"the command could not be started: {error.strerror or type(error).__name__}"
