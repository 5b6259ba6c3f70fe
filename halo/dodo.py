"""doit tasks for a workspace. Its dodo.py is one import: `from halo.dodo import *`.

    doit                      compile what is stale
    doit list --all           every target
    doit prompt -a AGENT      print an assembled prompt
    doit watch                keep everything fresh while layers are written
    doit clean                forget what was built

doit only schedules: whether a target is fresh is decided by the inputs in its pointer (`halo.build`).
"""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from doit.dependency import JSONCodec
from doit.exceptions import InvalidDodoFile, TaskFailed, UnmetDependency
from doit.reporter import ConsoleReporter

from halo.build.builder import Builder
from halo.build.inspection import inspect
from halo.build.targets import default_targets
from halo.build.whole import passes, standing_remarks
from halo.errors import HaloError
from halo.records.targets import Target
from halo.workspace.places import Places, find_places

__all__ = ["DOIT_CONFIG", "task_build", "task_prompt", "task_watch"]


class StderrReporter(ConsoleReporter):  # type: ignore[misc]  # doit is untyped
    """Reports on stderr: stdout belongs to what a task prints. Fresh targets are not worth a line.

    `failed` holds the names of the targets whose failure was told.
    """

    def __init__(self, outstream: Any, options: Any) -> None:  # noqa: ARG002  # doit's signature
        super().__init__(sys.stderr, options)
        self.failed: set[str] = set()
        self._told: dict[str, str] = {}

    def execute_task(self, task: Any) -> None:
        """Say nothing: the compile action says what it built."""

    def skip_uptodate(self, task: Any) -> None:
        """Say of a fresh artifact what every build says, each remark once."""
        for remark in (task.meta or {}).get("remarks", ()):
            if self._told.setdefault(remark, task.name) == task.name:
                self.write(f"{remark}\n")

    def add_failure(self, task: Any, fail: Any) -> None:
        """Say what failed and why, once. That a group lacks a member was said when the member failed."""
        if isinstance(fail, UnmetDependency):
            return
        message = fail.get_msg() if not isinstance(fail, TaskFailed) else fail.message
        name = task.name.removeprefix("build:")
        self.failed.add(name)
        # A layer that many prompts share breaks all of them: it is explained once.
        first = self._told.setdefault(message, name)
        self.write(f"failed  {name}\n{message}\n" if first == name else f"failed  {name}  as {first}\n")

    def complete_run(self) -> None:
        """Say nothing more: every failure has been told."""


class WorkspaceReporter(StderrReporter):
    """Ends a whole build as `halo build` does: what no longer exists is forgotten, the gate is written."""

    def __init__(self, outstream: Any, options: Any) -> None:
        super().__init__(outstream, options)
        self._whole = False

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """Note whether every target was asked for."""
        super().initialize(tasks, selected_tasks)
        every = {name for name in tasks if name.startswith("build:")}
        self._whole = "build" in selected_tasks or every <= set(selected_tasks)

    def complete_run(self) -> None:
        """Look after the workspace as a whole."""
        if not self._whole:
            return
        try:
            builder = _builder()
            for name in () if passes(builder) else inspect(builder).finish():
                self.write(f"gone    {name}\n")
        except (HaloError, OSError) as error:
            self.write(f"warning: the workspace was not cleared up: {error}\n")


class TolerantCodec(JSONCodec):  # type: ignore[misc]  # doit is untyped
    """Reads doit's database. A torn one, which another process may be writing just now, is empty."""

    def decode(self, json_string: str) -> Any:
        """Return what the database holds; it is nothing of value."""
        try:
            return super().decode(json_string)
        except ValueError:
            return {}


def database(halo: str) -> str:
    """Return the path of doit's database; a torn one is removed, for it holds nothing of value."""
    path = os.path.join(halo, "build", "doit.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, encoding="utf-8") as file:
            json.load(file)
    except FileNotFoundError:
        return path
    except ValueError:
        with suppress(FileNotFoundError):  # another process saw it too
            os.unlink(path)
    return path


def _builder() -> Builder:
    return Builder(find_places(os.getcwd(), os.environ))


def compile_action(places: Places, target: Target) -> TaskFailed | None:
    """Compile one target and say so on stderr. Module-level, so that worker processes can be given it."""
    try:
        artifact = Builder(places).ensure(target)
    except HaloError as error:
        return TaskFailed(str(error))
    except OSError as error:
        return TaskFailed(_unwritten(error))
    tokens = f"{artifact.manifest.tokens:,} tokens"
    lines = [f"built   {target.name}  {artifact.id[:12]}  {tokens}"]
    lines += [f"        {diagnostic}" for diagnostic in artifact.manifest.diagnostics]
    sys.stderr.write("\n".join([*lines, ""]))  # at once, or two processes would mix up their lines
    return None


def _unwritten(error: OSError) -> str:
    """Say why nothing could be written; of a full disk in the same words for every target."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}\n  make room, and build again; what was built before is as it was"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _is_fresh(places: Places, target: Target, remarks: list[str]) -> bool:
    """Tell whether `target` is fresh; put into `remarks` what every build says of it."""
    artifact = Builder(places).status(target).artifact
    if artifact is None:
        return False
    remarks[:] = map(str, standing_remarks(artifact))
    return True


def task_build() -> Iterator[dict[str, Any]]:
    """Compile every agent, skill and directory's rules that is stale."""
    yield {"name": None, "doc": "compile every agent, skill and directory's rules that is stale"}
    try:
        builder = _builder()
        targets = default_targets(builder.places.tree()).targets
    except HaloError as error:
        raise InvalidDodoFile(str(error)) from None  # doit's own way to say it without a traceback
    for target in targets:
        remarks: list[str] = []
        yield {
            "name": target.name,
            "doc": target.label,
            "actions": [(compile_action, [builder.places, target])],
            "targets": [builder.pointers.path(target)],
            "uptodate": [(_is_fresh, [builder.places, target, remarks])],
            "meta": {"remarks": remarks},
            "clean": True,
            "io": {"capture": False},
        }


def _print_prompt(**options: Any) -> TaskFailed | None:
    """Do what `halo prompt` does with the same options."""
    from click import UsageError

    from halo.cli.prompt import command

    given = {**options, "directory": options["directory"] or None, "workspace": None}
    try:
        command.callback(**given)  # type: ignore[misc]  # a command that is made of a function has one
    except HaloError as error:
        return TaskFailed(str(error))
    except UsageError as error:
        return TaskFailed(error.format_message())
    return None


# Options of `halo prompt` with a value: name in its function, in the command line, default, choices, help.
_VALUES = (
    ("agent", "agent", "default", (), "whose prompt"),
    ("role", "role", "root", ("root", "sub"), "in a session of its own, or started by another agent"),
    ("directory", "dir", "", (), "the working directory"),
    ("mode", "mode", "full", ("full", "minimal", "none"), "how much of it"),
    ("platform", "platform", "posix", ("posix", "windows"), "whose variants of the prompts"),
    ("access", "access", "full", ("full", "workspace", "readonly"), "the access level"),
    ("profile", "profile", "", (), "with the models of a profile"),
)
_FLAGS = (
    ("layers", "layers", "a table instead"),
    ("asks", "ask", "with --layers: the provider's own count as well"),
    ("blame", "blame", "who wrote each line"),
    ("filled", "fill", "fill the slots as a turn would"),
    ("frozen", "frozen", "refuse a stale artifact"),
)


def task_prompt() -> dict[str, Any]:
    """Print the assembled prompt of an agent."""
    values = [
        {
            "name": name,
            "short": "a" if name == "agent" else "",
            "long": long,
            "default": default,
            "choices": tuple((choice, "") for choice in choices),
            "help": text,
        }
        for name, long, default, choices, text in _VALUES
    ]
    flags = [
        {"name": name, "long": long, "type": bool, "default": False, "help": text}
        for name, long, text in _FLAGS
    ]
    return {
        "actions": [(_print_prompt,)],
        "params": [*values, *flags],
        "uptodate": [False],
        "io": {"capture": False},
    }


def _watch() -> TaskFailed | None:
    from halo.cli.watch import follow

    try:
        code = follow(_builder(), os.environ)
    except HaloError as error:
        return TaskFailed(str(error))
    return TaskFailed("the output cannot be written") if code else None


def task_watch() -> dict[str, Any]:
    """Compile what is stale, and again what a change concerns, until Ctrl-C."""
    return {"actions": [(_watch,)], "uptodate": [False], "io": {"capture": False}}


def _config() -> dict[str, Any]:
    halo = os.path.join(os.getcwd(), ".halo")
    if not os.path.isdir(halo):
        # Imported elsewhere, for instance by `halo build`: doit then brings its own configuration.
        return {}
    return {
        # Not the group `build` itself: doit counts a group with a failed member as an error (exit 2).
        "default_tasks": ["build:*"],
        "backend": "json",
        "codec_cls": TolerantCodec,
        "dep_file": database(halo),
        "reporter": WorkspaceReporter,
        "verbosity": 2,
        "continue": True,
    }


DOIT_CONFIG = _config()
