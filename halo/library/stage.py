"""What the turns of a program's agent are made with: artifacts, slot values, tools, the model."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from halo.errors import ProviderError, UsageError
from halo.library.functions import FunctionTool
from halo.library.results import Stats
from halo.library.workspace import Workspace
from halo.models.adapter import Adapter, Finished, Notice, Request
from halo.records.artifacts import Artifact, Runtime
from halo.records.budgets import Budgets
from halo.records.events import UsageReported
from halo.records.messages import Message, ToolCall, ToolResult
from halo.records.targets import AgentTarget, SkillTarget
from halo.runner.budgets import Ledger, Spent
from halo.runner.record import History
from halo.runner.turn import Turn, TurnEvent, run_turn, turn_ledger
from halo.sessions.access import allow
from halo.sessions.desk import Equipment, gather, lay_out
from halo.sessions.servers import turn_servers
from halo.sessions.spending import price_of, today
from halo.sessions.status import Figures, status_text
from halo.tools.base import Tool
from halo.tools.toolbox import Toolbox

Tools = tuple[FunctionTool[..., Any], ...]


class Stage:
    """One setting: it never changes. `changed` makes the next one, with the same model still open."""

    def __init__(
        self,
        workspace: Workspace,
        target: AgentTarget,
        tools: Tools,
        budgets: Budgets | None,
        adapter: Adapter | None,
    ) -> None:
        self.workspace = workspace
        self.tools = tools
        self._asked = target
        self._budgets = budgets
        self._given = adapter
        self._adapter: Adapter | None = None
        self._desk = workspace.desk()
        grants = self._desk.grants()
        allowed = allow(self._desk.builder, self._desk.tree, grants, target)
        self.notices = allowed.notices
        self._target = allowed.target
        artifact = self._bounded(workspace.artifact(allowed.target, tuple(t.spec for t in tools)))
        self._refuse_dropped(artifact)
        skills = {s.id: workspace.artifact(SkillTarget(s.id)) for s in artifact.manifest.skills}
        self._equipment = Equipment(artifact, skills, allowed.access, grants)
        gathered = gather(self._desk, self._equipment)
        self.warnings = gathered.warnings
        # The time of a slot is that of loading: a prefix that changed with each turn would never be cached.
        self._values: Mapping[str, str] = gathered.at(_now())
        turn, self._toolbox, self.remarks = self._lay_out(History())
        self.prefix = turn.prefix
        self._spent = Spent()
        self._price = price_of(self._desk.tree, self.runtime, today(self._desk.now_ns()))

    def _bounded(self, artifact: Artifact) -> Artifact:
        """Put the program's budgets in the place of agent.yaml's."""
        manifest = artifact.manifest
        if self._budgets is None or manifest.runtime is None:
            return artifact
        runtime = msgspec.structs.replace(manifest.runtime, budgets=self._budgets)
        return msgspec.structs.replace(artifact, manifest=msgspec.structs.replace(manifest, runtime=runtime))

    def _refuse_dropped(self, artifact: Artifact) -> None:
        """Raise UsageError for functions that the agent would be loaded without."""
        offered = {spec.name for spec in artifact.manifest.tools}
        dropped = [tool.spec.name for tool in self.tools if tool.spec.name not in offered]
        if dropped:
            why = (
                self.notices[0].removeprefix("note: ")
                if self.notices
                else f"it has {self._target.access} access"
            )
            raise UsageError(
                f"{self._asked.agent} cannot have {', '.join(dropped)}: {why}",
                hint="functions that change nothing may be offered all the same: @tool(read_only=True)",
            )

    def changed(self, tools: Tools | None, layers: Mapping[str, str | None] | None) -> "Stage":
        """Return the setting with other functions or layers, as the workspace is now; the model stays open.

        Raises UsageError when agent.yaml names another model by now.
        """
        workspace = self.workspace if layers is None else self.workspace.with_layers(layers)
        stage = Stage(
            workspace, self._asked, self.tools if tools is None else tools, self._budgets, self._given
        )
        if self._given is None and stage.runtime.binding != self.runtime.binding:
            raise UsageError(
                f"{self._asked.agent} has another model by now: {stage.runtime.binding.model}",
                hint="load the agent anew; its history can be handed on: take_history",
            )
        stage._adapter, stage._spent = self._adapter, self._spent
        return stage

    @property
    def runtime(self) -> Runtime:
        """All that a turn needs beside the text."""
        runtime = self._equipment.artifact.manifest.runtime
        assert runtime is not None  # noqa: S101  # agents have one
        return runtime

    @property
    def adapter(self) -> Adapter:
        """The model, opened when it is first needed. Raises StartError for a missing key and the like."""
        if self._adapter is None:
            artifact = self._equipment.artifact
            opened = self._given or self._desk.adapter(artifact, self._target)
            self._adapter = self._desk.watched(opened, artifact)
        return self._adapter

    async def run(self, history: History, stats: Callable[[], Stats]) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn whose message is the last of `history`; `stats` says what was used up to now."""
        notices: list[str] = []
        servers = turn_servers(self._desk, self._equipment.artifact, self._equipment.grants, notices.append)
        run = Ledger("run", self.runtime.budgets.run, time.monotonic, spent=self._spent)
        ledger = turn_ledger(self.runtime.budgets, run=run)
        turn, toolbox, _ = self._lay_out(
            history, servers.tools, lambda: self._status(history, stats(), ledger)
        )
        running = run_turn(turn, self.adapter, toolbox, ledger=ledger, price=self._price)
        try:
            async with aclosing(servers), aclosing(running) as events:
                async for event in events:
                    while notices:
                        yield Notice(notices.pop(0))
                    yield event
        finally:
            self._spent = run.spent

    def _lay_out(
        self,
        history: History,
        servers: Mapping[str, Tool] = MappingProxyType({}),
        status: Callable[[], str] = lambda: "no turn runs",
    ) -> tuple[Turn, Toolbox, list[str]]:
        functions = {tool.spec.name: tool.bound() for tool in self.tools}
        further = {**servers, **functions}
        return lay_out(self._desk, self._equipment, history, self._values, further, status)

    def _status(self, history: History, stats: Stats, ledger: Ledger) -> str:
        figures = Figures(
            turn=stats.turns + 1,
            messages=len(history.messages),
            calls=stats.calls,
            usage=stats.usage,
            expected=stats.expected,
            filled=history.counted or None,
            window=self.runtime.context_tokens,
            cost=stats.cost or 0.0,
            currency=stats.currency,
            unpriced=stats.calls if stats.cost is None else 0,
            left=ledger.left(),
        )
        return status_text(figures, datetime.now(UTC), self._desk.zone_name())

    async def call(
        self, history: tuple[Message, ...], *, schema: dict[str, Any] | None, max_tokens: int | None
    ) -> Finished:
        """Make one model call. With a `schema` the reply is a value of it, and no tool is called."""
        binding = self.runtime.binding
        if max_tokens is not None:
            binding = msgspec.structs.replace(binding, max_tokens=max_tokens)
        choice: Literal["auto", "none"] = "none" if schema is not None else "auto"
        request = Request(self.prefix, history, binding, schema, choice)
        async with aclosing(self.adapter.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event
        raise ProviderError("the model's side ended without a reply", kind="protocol")

    def report(self, finished: Finished) -> UsageReported:
        """Return the figures of a call as a turn records them."""
        cost = self._price(finished.usage)
        return UsageReported(
            self.adapter.provider,
            finished.model,
            finished.usage,
            finished.request_digest,
            finished.stop_reason,
            finished.restored,
            finished.expected,
            None if cost is None else cost.amount,
            "" if cost is None else cost.currency,
            prefix=finished.prefix,
        )

    async def execute(self, call: ToolCall) -> ToolResult:
        """Run one call of a tool of the agent."""
        return await self._toolbox.run(call)

    async def close(self) -> None:
        """Close the model, unless the program brought it along."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None and self._given is None:
            await adapter.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
