"""Runs a model's calls: finds the tool, checks the arguments, answers mistakes instead of raising."""

import asyncio
import inspect
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from types import MappingProxyType
from typing import Any

import msgspec

from halo.records.messages import ToolCall, ToolResult
from halo.records.targets import permits
from halo.records.tools import BUILTIN_TOOLS, SESSION_TOOLS, ToolSpec
from halo.tools.base import LONGEST, Answer, Outcome, Surroundings, Tool, ToolFailure, brief, encodable
from halo.tools.consent import Gate
from halo.tools.drafts import Drafts
from halo.tools.file_edit import file_edit
from halo.tools.file_list import file_list
from halo.tools.file_read import file_read
from halo.tools.file_write import file_write
from halo.tools.glob import glob
from halo.tools.grep import grep
from halo.tools.mcp.arguments import check_shape
from halo.tools.shell_exec import shell_exec
from halo.tools.threads import Raised, in_tool_thread, tool_work
from halo.tools.view_image import view_image
from halo.tools.web_fetch import web_fetch
from halo.workspace.mcp.names import PREFIX

# A skill's text is protected: half of the instructions would be followed as if they were all. What was
# fetched is bounded already, and cannot be asked for in smaller parts.
_NEVER_CUT = frozenset({"activate_skill", "web_fetch"})

_OWN = {spec.name: spec for spec in BUILTIN_TOOLS}

# Calls of one batch that run at the same time.
_TOGETHER = 8

# The folders of an absolute path, for messages that were not written for a model.
_FOLDERS = re.compile(r"(?:\b[A-Za-z]:)?[/\\](?:[^\s'\":/\\]+[/\\])+")


def _activate_skill(arguments: Mapping[str, Any], around: Surroundings) -> str:
    text = around.load_skill(arguments["skill_id"], arguments.get("arguments", ""))
    if text is None:
        raise ToolFailure(f"there is no skill {arguments['skill_id']!r}")
    return text


async def _session_status(arguments: Mapping[str, Any], around: Surroundings) -> str:
    del arguments
    return around.status()  # in the event loop, where the session changes


IMPLEMENTED: dict[str, Tool] = {
    "file_read": file_read,
    "view_image": view_image,
    "file_write": file_write,
    "file_edit": file_edit,
    "file_list": file_list,
    "shell_exec": shell_exec,
    "grep": grep,
    "glob": glob,
    "web_fetch": web_fetch,
    "session_status": _session_status,
    "activate_skill": _activate_skill,
}

# Tools that remember something for one turn.
_PER_TURN: dict[str, Callable[[], Tool]] = {"draft": Drafts}

# They change no file, but what they do to sessions has an order.
_IN_ORDER = frozenset(spec.name for spec in SESSION_TOOLS)


class Toolbox:
    """The tools of one turn, or of turns one after the other: what the artifact offers, and where it acts."""

    def __init__(
        self,
        specs: tuple[ToolSpec, ...],
        around: Surroundings,
        further: Mapping[str, Tool] = MappingProxyType({}),
        decide: Gate | None = None,
    ) -> None:
        self._specs = {spec.name: _as_it_is(spec) for spec in specs}
        self._further = further
        self._around = around
        self._decide = decide
        self.begin_turn()

    def begin_turn(self) -> None:
        """Let the tools forget what they remember of the turn before."""
        self._own = {name: make() for name, make in _PER_TURN.items()}

    def go_on(self, before: "Toolbox") -> None:
        """Go on in the turn of another toolbox: with what its tools remember."""
        self._own = before._own  # noqa: SLF001  # of its own kind

    @property
    def missing(self) -> list[str]:
        """Tools that the artifact offers and this version of Halo cannot run."""
        return [name for name in self._specs if self._tool(name) is None]

    def fits(self, name: str, arguments: dict[str, Any]) -> bool:
        """Tell whether there is a tool of that name that takes these arguments."""
        spec = self._specs.get(name)
        try:
            return spec is not None and check_arguments(spec, json.dumps(arguments)) is not None
        except ToolFailure:
            return False

    async def run(self, call: ToolCall, tool: Tool | None = None) -> ToolResult:
        """Run one call, by `tool` if one is given, such as one of a server that was started for it.

        What goes wrong is told to the model; nothing runs on arguments that do not fit.
        """
        return await self._run(call, asyncio.Lock(), tool)

    async def run_batch(
        self, calls: Sequence[ToolCall], clock: Callable[[], float] = time.monotonic
    ) -> AsyncGenerator[tuple[ToolCall, ToolResult, int], None]:
        """Run the calls of one reply; yield each with its result and its milliseconds, in their order.

        Read-only calls that stand next to each other run together, any other alone: none sees the work of a
        later one. A result is yielded as soon as it and all before it are there. Closing the generator
        cancels what runs and waits until that has ended. `clock` is in seconds.
        """
        for together in self._groups(calls):
            async with aclosing(self._run_group(together, clock)) as answered:
                async for answer in answered:
                    yield answer

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        for changes, group in groupby(calls, self._changes):
            if changes:
                yield from ([call] for call in group)
            else:
                yield list(group)

    def _changes(self, call: ToolCall) -> bool:
        spec = self._specs.get(call.name)
        return spec is not None and (spec.access != "readonly" or call.name in _IN_ORDER)

    async def _run_group(
        self, calls: list[ToolCall], clock: Callable[[], float]
    ) -> AsyncGenerator[tuple[ToolCall, ToolResult, int], None]:
        slots, asking = asyncio.Semaphore(_TOGETHER), asyncio.Lock()

        async def timed(call: ToolCall) -> tuple[ToolResult, int]:
            async with slots:
                began = clock()
                result = await self._run(call, asking)
                return result, round((clock() - began) * 1000)

        tasks = [asyncio.create_task(timed(call)) for call in calls]
        try:
            for call, task in zip(calls, tasks, strict=True):
                await asyncio.wait([task])  # leaves the task alone when this is cancelled
                if task.cancelled():  # by itself: whoever cancels this does not get here
                    yield call, _broken_off(call), 0
                else:
                    yield call, *task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: ToolCall, asking: asyncio.Lock, tool: Tool | None = None) -> ToolResult:
        """Run one call. Whoever holds `asking` asks for consent; it is had in the order of the calls."""
        with tool_work():
            outcome = await self._answer(call, asking, tool or self._tool(call.name))
        text = encodable(self._around.mask(outcome.text))
        if len(text) > LONGEST and call.name not in _NEVER_CUT:
            text = (
                f"{text[:LONGEST]}\n[cut: {len(text)} characters in all, the first {LONGEST} are shown; "
                "ask for a smaller part]"
            )
        return ToolResult(call.id, text, is_error=outcome.is_error, images=outcome.images)

    async def _answer(self, call: ToolCall, asking: asyncio.Lock, tool: Tool | None) -> Outcome:
        spec = self._specs.get(call.name)
        if spec is None:
            known = ", ".join(self._specs) or "none"
            return Outcome(f"there is no tool {call.name!r}; yours are: {known}", is_error=True)
        if not permits(self._around.access, spec.access):
            return Outcome(
                f"{call.name} needs {spec.access} access; this is {self._around.access}", is_error=True
            )
        if tool is None:
            return Outcome(f"{call.name} cannot be run here; do without it", is_error=True)
        try:
            arguments = check_arguments(spec, call.arguments)
            async with asking:
                refusal = await self._decide(call.name, arguments) if self._decide is not None else None
            if refusal is not None:
                return Outcome(refusal, is_error=True)
            answer = await _act(tool, arguments, self._around)
        except ToolFailure as failure:
            return Outcome(str(failure), is_error=True)
        except Exception as error:  # noqa: BLE001  # one tool's fault must not cost the turn
            return Outcome(_internal(error, self._around), is_error=True)
        match answer:
            case Raised():
                return _failed(answer.error, self._around)
            case Answer():
                return Outcome(answer.text, images=answer.images)
            case str():
                return Outcome(answer)

    def _tool(self, name: str) -> Tool | None:
        return self._further.get(name) or self._own.get(name) or IMPLEMENTED.get(name)


def _as_it_is(spec: ToolSpec) -> ToolSpec:
    """Return what a tool really takes and needs: an unpacked bundle may say anything of ours.

    Only the skills that `activate_skill` may load stand in its schema alone.
    """
    if spec.name.startswith(PREFIX):
        return msgspec.structs.replace(spec, access="workspace")
    own = _OWN.get(spec.name)
    if own is None:
        return spec
    return msgspec.structs.replace(spec, access=own.access) if spec.name == "activate_skill" else own


async def _act(tool: Tool, arguments: Mapping[str, Any], around: Surroundings) -> str | Answer | Raised:
    """Run a tool: a coroutine function in the event loop, any other in a thread."""
    made: str | Answer | Awaitable[str | Answer] | Raised
    if inspect.iscoroutinefunction(tool):
        made = tool(arguments, around)
    else:
        made = await in_tool_thread(lambda: tool(arguments, around))
    return made if isinstance(made, (str, Answer, Raised)) else await made


def _failed(error: BaseException, around: Surroundings) -> Outcome:
    """Answer what a tool raised in its thread; what ends the program goes on doing so."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise error
    text = str(error) if isinstance(error, ToolFailure) else _internal(error, around)
    return Outcome(text, is_error=True)


def _broken_off(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, f"{call.name} was broken off from within; try it again", is_error=True)


def _internal(error: BaseException, around: Surroundings) -> str:
    """Say in one line what broke, without the machine's paths: a model can do nothing with them."""
    text = (error.strerror or "") if isinstance(error, OSError) else str(error)
    roots = [(around.workspace.path, "."), *((r.path, f"skill:{s}") for s, r in around.skills.items())]
    for path, shown in ((path, shown) for path, shown in roots if path):
        for spelling in (os.path.realpath(path), path):
            text = text.replace(spelling, shown)
    return f"internal error: {type(error).__name__}: {brief(_FOLDERS.sub('.../', text))}"


class _NothingElsewhere(dict[str, Callable[[str], Any]]):
    """Answers for every kind of address: a schema that refers elsewhere is wrong, and nothing is fetched."""

    def __contains__(self, scheme: object) -> bool:
        return True

    def __missing__(self, scheme: str) -> Callable[[str], Any]:
        return self._refuse

    @staticmethod
    def _refuse(address: str) -> Any:
        raise ToolFailure(f"the tool's schema refers to {address}, which is not part of it")


def check_arguments(spec: ToolSpec, text: str) -> dict[str, Any]:
    """Parse a call's arguments and check them against the tool's schema; `ToolFailure` says what is wrong."""
    import fastjsonschema

    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        raise ToolFailure(f"the arguments of {spec.name} are not valid JSON: {error}") from error
    if spec.name.startswith(PREFIX):
        return check_shape(spec.name, spec.parameters, arguments)  # the schema is a stranger's
    try:
        fastjsonschema.validate(spec.parameters, arguments, handlers=_NothingElsewhere())
    except fastjsonschema.JsonSchemaValueException as error:
        raise ToolFailure(f"{spec.name}: {error.message}") from error
    # JSON Schema counts 2.0 as an integer.
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
    }
