"""Hands stale targets to doit: in parallel if asked, and on to the next when one fails."""

import os
from typing import TYPE_CHECKING

from doit.cmd_base import TaskLoader2
from doit.doit_cmd import DoitMain
from doit.task import Task

from halo.dodo import StderrReporter, TolerantCodec, compile_action

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.records.targets import Target


class _StaleTargets(TaskLoader2):  # type: ignore[misc]  # doit is untyped
    """Loads one task for each stale target; nothing is read from the user's doit configuration."""

    def __init__(self, builder: "Builder", targets: "list[Target]", reporter: StderrReporter) -> None:
        super().__init__()
        self._reporter = reporter
        self._builder = builder
        self._targets = targets

    def load_doit_config(self) -> dict[str, object]:
        return {
            # No record: what is stale has been decided, and two builds must not read each other's.
            "backend": "json",
            "codec_cls": TolerantCodec,
            "dep_file": os.devnull,
            "reporter": self._reporter,
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


def build_stale(builder: "Builder", targets: "list[Target]", jobs: int) -> set[str]:
    """Compile `targets` as doit tasks; return the names of those that failed and said why on stderr."""
    reporter = StderrReporter(None, {"failure_verbosity": 0})
    arguments = ["run", *(["-n", str(jobs)] if jobs > 1 else [])]
    DoitMain(_StaleTargets(builder, targets, reporter), config_filenames=()).run(arguments)
    return reporter.failed
