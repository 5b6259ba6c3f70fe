"""Runs a model's calls: finds the tool, checks the arguments, answers mistakes instead of raising."""

import json
import os
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from halo.records.messages import ToolCall, ToolResult
from halo.records.targets import permits
from halo.records.tools import ToolSpec
from halo.tools.base import LONGEST, Answer, Outcome, Surroundings, Tool, ToolFailure, brief, encodable
from halo.tools.consent import Gate
from halo.tools.file_list import file_list
from halo.tools.file_read import file_read
from halo.tools.grep import grep
from halo.tools.mcp.arguments import check_shape
from halo.tools.shell_exec import shell_exec
from halo.tools.web_fetch import web_fetch
from halo.workspace.mcp.names import PREFIX

# A skill's text is protected: half of the instructions would be followed as if they were all. What was
# fetched is bounded already, and cannot be asked for in smaller parts.
_NEVER_CUT = frozenset({"activate_skill", "web_fetch"})

# The folders of an absolute path, for messages that were not written for a model.
_FOLDERS = re.compile(r"(?:\b[A-Za-z]:)?[/\\](?:[^\s'\":/\\]+[/\\])+")


def _activate_skill(arguments: Mapping[str, Any], around: Surroundings) -> str:
    text = around.load_skill(arguments["skill_id"], arguments.get("arguments", ""))
    if text is None:
        raise ToolFailure(f"there is no skill {arguments['skill_id']!r}")
    return text


IMPLEMENTED: dict[str, Tool] = {
    "file_read": file_read,
    "file_list": file_list,
    "grep": grep,
    "web_fetch": web_fetch,
    "shell_exec": shell_exec,
    "activate_skill": _activate_skill,
}


class Toolbox:
    """The tools of one turn: what the artifact offers, in the given surroundings."""

    def __init__(
        self,
        specs: tuple[ToolSpec, ...],
        around: Surroundings,
        further: Mapping[str, Tool] = MappingProxyType({}),
        decide: Gate | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._further = further
        self._around = around
        self._decide = decide

    @property
    def missing(self) -> list[str]:
        """Tools that the artifact offers and this version of Halo cannot run."""
        return [name for name in self._specs if self._tool(name) is None]

    async def run(self, call: ToolCall) -> ToolResult:
        """Run one call. What goes wrong is told to the model; nothing runs on arguments that do not fit."""
        outcome = await self._answer(call)
        text = encodable(self._around.mask(outcome.text))
        if len(text) > LONGEST and call.name not in _NEVER_CUT:
            text = (
                f"{text[:LONGEST]}\n[cut: {len(text)} characters in all, the first {LONGEST} are shown; "
                "ask for a smaller part]"
            )
        return ToolResult(call.id, text, is_error=outcome.is_error, images=outcome.images)

    async def _answer(self, call: ToolCall) -> Outcome:
        spec = self._specs.get(call.name)
        if spec is None:
            known = ", ".join(self._specs) or "none"
            return Outcome(f"there is no tool {call.name!r}; yours are: {known}", is_error=True)
        if not permits(self._around.access, spec.access):
            return Outcome(
                f"{call.name} needs {spec.access} access; this is {self._around.access}", is_error=True
            )
        tool = self._tool(call.name)
        if tool is None:
            return Outcome(f"{call.name} cannot be run here; do without it", is_error=True)
        try:
            arguments = check_arguments(spec, call.arguments)
            refusal = await self._decide(call.name, arguments) if self._decide is not None else None
            if refusal is not None:
                return Outcome(refusal, is_error=True)
            answer = await _act(tool, arguments, self._around)
            return Outcome(answer) if isinstance(answer, str) else Outcome(answer.text, images=answer.images)
        except ToolFailure as failure:
            return Outcome(str(failure), is_error=True)
        except Exception as error:  # noqa: BLE001  # one tool's fault must not cost the turn
            return Outcome(_internal(error, self._around), is_error=True)

    def _tool(self, name: str) -> Tool | None:
        return self._further.get(name) or IMPLEMENTED.get(name)


async def _act(tool: Tool, arguments: Mapping[str, Any], around: Surroundings) -> str | Answer:
    """Run a tool: a coroutine function in the event loop, any other in a thread."""
    import asyncio
    import inspect

    if inspect.iscoroutinefunction(tool):
        made = tool(arguments, around)
    else:
        made = await asyncio.to_thread(lambda: tool(arguments, around))
    return made if isinstance(made, (str, Answer)) else await made


def _internal(error: Exception, around: Surroundings) -> str:
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
