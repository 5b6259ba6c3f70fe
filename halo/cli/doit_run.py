"""Hands stale targets to doit: in parallel if asked, and on to the next when one fails."""

import os
import tempfile
from typing import TYPE_CHECKING

from doit.cmd_base import TaskLoader2
from doit.doit_cmd import DoitMain
from doit.task import Task

from halo.dodo import StderrReporter, compile_action

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.records.targets import Target


class _StaleTargets(TaskLoader2):  # type: ignore[misc]  # doit is untyped
    """Loads one task for each stale target; nothing is read from the user's doit configuration."""

    def __init__(self, builder: "Builder", targets: "list[Target]", database: str) -> None:
        super().__init__()
        self._builder = builder
        self._targets = targets
        self._database = database

    def load_doit_config(self) -> dict[str, object]:
        return {
            "backend": "json",
            "dep_file": self._database,
            "reporter": StderrReporter,
            "verbosity": 2,
            "continue": True,
        }

    def load_tasks(self, cmd: object, pos_args: list[str]) -> list[Task]:  # noqa: ARG002  # doit's signature
        return [
            Task(
                f"build:{target.name}",
                [(compile_action, [self._builder.places, target])],
                targets=[self._builder.pointers.path(target)],
                io={"capture": False},
            )
            for target in self._targets
        ]


def build_stale(builder: "Builder", targets: "list[Target]", jobs: int) -> int:
    """Compile `targets` as doit tasks; return how many failed (each has said why on stderr)."""
    arguments = ["run", *(["-n", str(jobs)] if jobs > 1 else [])]
    # A record of its own: what is stale has been decided, and two builds must not read each other's.
    with tempfile.TemporaryDirectory(prefix="halo-build-") as folder:
        loader = _StaleTargets(builder, targets, os.path.join(folder, "doit.json"))
        DoitMain(loader, config_filenames=()).run(arguments)
    return sum(builder.status(target).artifact is None for target in targets)
