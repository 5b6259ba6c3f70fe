"""Shell commands in the sandbox, for access `workspace`."""

import asyncio
from collections.abc import Mapping

from halo.tools.base import ToolFailure
from halo.tools.sandbox import bubblewrap
from halo.tools.sandbox.base import Executed
from halo.tools.sandbox.direct import not_started
from halo.tools.sandbox.mounts import Opening
from halo.tools.sandbox.processes import run_process
from halo.tools.sandbox.shells import shell
from halo.tools.sandbox.system import HOME


class SandboxedCommands:
    """Runs commands in the workspace of `opening`, and in nothing else."""

    def __init__(self, opening: Opening, environ: Mapping[str, str]) -> None:
        self._opening = opening
        self._environment = {
            "PATH": bubblewrap.PATH,
            "HOME": HOME,
            "TMPDIR": "/tmp",  # noqa: S108
            "TERM": "dumb",
            **{name: environ[name] for name in ("LANG", "TZ") if name in environ},
        }

    async def execute(self, command: str, environment: Mapping[str, str], seconds: float) -> Executed:
        """Run `command`; see `halo.tools.sandbox.base.Commands`."""
        found = await asyncio.to_thread(bubblewrap.find_bubblewrap)
        if found.problem:
            raise ToolFailure(
                "shell_exec is refused: below full access commands run in a sandbox only, and "
                f"{found.problem}"
            )
        program = [shell(), "-c", command]
        given = {**self._environment, **environment}
        boxed = await asyncio.to_thread(bubblewrap.boxed, self._opening, program, given)
        try:
            with boxed.started_with() as (argv, handed):
                executed = await run_process(argv, boxed.environment, "/", seconds, handed)
        except (OSError, ValueError) as error:
            raise ToolFailure(not_started(error)) from error
        if executed.code == 1 and not executed.output and executed.errors.startswith("bwrap: "):
            raise ToolFailure(f"the sandbox could not be set up: {executed.errors.strip()}")
        return executed
