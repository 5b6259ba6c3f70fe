"""What the turns of a program's agent are made with: artifacts, slot values, tools, the model."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from halo.errors import BudgetError, ProviderError, UsageError
from halo.library.functions import Tools
from halo.library.results import Stats
from halo.library.workspace import Workspace
from halo.models.adapter import Adapter, Finished, Lost, Notice, Request, Retrying
from halo.records.artifacts import Artifact, Runtime
from halo.records.budgets import Budgets
from halo.records.events import UsageLost, UsageReported
from halo.records.messages import Message, ToolCall, ToolResult
from halo.records.targets import AgentTarget, SkillTarget
from halo.runner.budgets import Ledger, Spent, turn_ledger
from halo.runner.deadline import Over, check_bounds, within_time
from halo.runner.record import History
from halo.runner.reporting import charge, report, report_lost
from halo.runner.turn import Turn, TurnEvent, run_turn
from halo.sessions.access import allow, refused
from halo.sessions.desk import Equipment, gather, lay_out
from halo.sessions.servers import turn_servers
from halo.sessions.spending import price_of, today
from halo.sessions.status import Figures, status_text
from halo.tools.base import Tool
from halo.tools.mcp.servers import McpServers
from halo.tools.toolbox import Toolbox


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
        self._target = allowed.target
        artifact = self._bounded(workspace.artifact(allowed.target, tuple(t.spec for t in tools)))
        self._check_functions(artifact, allowed.notices)
        skills = {s.id: workspace.artifact(SkillTarget(s.id)) for s in artifact.manifest.skills}
        self._equipment = Equipment(artifact, skills, allowed.access, grants)
        gathered = gather(self._desk, self._equipment)
        # The time of a slot is that of loading: a prefix that changed with each turn would never be cached.
        self._values: Mapping[str, str] = gathered.at(_now())
        turn, self._toolbox, remarks = self._lay_out(History())
        warnings = (f"warning: {warning}" for warning in gathered.warnings)
        self.notices = (*allowed.notices, *refused(artifact, allowed.access), *warnings, *remarks)
        self.prefix = turn.prefix
        self._spent = Spent()
        self._price = price_of(self._desk.tree, self.runtime, today(self._desk.now_ns()))

    def _bounded(self, artifact: Artifact) -> Artifact:
        """Put the program's budgets in the place of agent.yaml's."""
        if self._budgets is None:
            return artifact
        runtime = msgspec.structs.replace(artifact.runtime, budgets=self._budgets)
        manifest = msgspec.structs.replace(artifact.manifest, runtime=runtime)
        return msgspec.structs.replace(artifact, manifest=manifest)

    def _check_functions(self, artifact: Artifact, notices: tuple[str, ...]) -> None:
        """Raise UsageError for functions that the agent would be loaded without, or that share a name."""
        offered = Counter(spec.name for spec in artifact.manifest.tools)
        functions = [tool.spec.name for tool in self.tools]
        twice = sorted({name for name in functions if offered[name] > 1})
        if twice:
            raise UsageError(
                f"{self._asked.agent} would have two tools of the name {', '.join(twice)}",
                hint='give the function another one: @tool(name="...")',
            )
        dropped = [name for name in functions if not offered[name]]
        if dropped:
            why = notices[0].removeprefix("note: ") if notices else f"it has {self._target.access} access"
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
        stage._toolbox.go_on(self._toolbox)
        return stage

    @property
    def runtime(self) -> Runtime:
        """All that a turn needs beside the text."""
        return self._equipment.artifact.runtime

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
        servers = self._servers(notices.append)
        run, ledger = self._ledgers()
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

    def _ledgers(self) -> tuple[Ledger, Ledger]:
        """Return the ledger of the run, which goes on where it was, and that of a turn in it."""
        run = Ledger("run", self.runtime.budgets.run, time.monotonic, spent=self._spent)
        return run, turn_ledger(self.runtime.budgets, run=run)

    def _servers(self, tell: Callable[[str], None]) -> McpServers:
        return turn_servers(self._desk, self._equipment.artifact, self._equipment.grants, tell)

    async def call(
        self,
        history: tuple[Message, ...],
        count: Callable[[UsageReported | UsageLost], None],
        *,
        schema: dict[str, Any] | None,
        max_tokens: int | None,
    ) -> Finished:
        """Make one model call. With a `schema` the reply is a value of it, and no tool is called.

        `count` is told what it has used, and what attempts have used that failed.
        It counts in the budget of the run; BudgetError is raised where that, or the time of a turn, is over.
        """
        binding = self.runtime.binding
        if max_tokens is not None:
            binding = msgspec.structs.replace(binding, max_tokens=max_tokens)
        choice: Literal["auto", "none"] = "none" if schema is not None else "auto"
        request = Request(self.prefix, history, binding, schema, choice)
        run, ledger = self._ledgers()
        ledger.check_priced(self._price, binding.model)
        try:
            check_bounds(ledger)
            finished, attempts = await self._finished(request, ledger, count)
            count(charge(ledger, self._price, report(self.adapter.provider, finished, attempts)))
            return finished
        except Over as over:
            raise BudgetError(
                f"{over.reached.bound} is reached", hint="load the agent with larger `budgets`"
            ) from None
        finally:
            self._spent = run.spent

    async def _finished(
        self, request: Request, ledger: Ledger, count: Callable[[UsageLost], None]
    ) -> tuple[Finished, int]:
        """Return the whole reply, and at which attempt it came."""
        attempts = 1
        async with aclosing(within_time(self.adapter.stream(request), ledger)) as events:
            async for event in events:
                if isinstance(event, Lost):
                    count(charge(ledger, self._price, report_lost(self.adapter.provider, event)))
                    check_bounds(ledger)  # it is not made again for more than there is
                attempts += isinstance(event, Retrying)
                if isinstance(event, Finished):
                    return event, attempts
        raise ProviderError("the model's side ended without a reply", kind="protocol")

    def begin_turn(self) -> None:
        """Begin a turn whose calls are made by hand: what tools remember of the one before is over."""
        self._toolbox.begin_turn()

    async def execute(self, call: ToolCall) -> ToolResult:
        """Run one call of a tool of the agent; an MCP server is started for this call alone."""
        async with aclosing(self._servers(lambda _: None)) as servers:
            return await self._toolbox.run(call, servers.tools.get(call.name))

    async def close(self) -> None:
        """Close the model, unless the program brought it along."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None and self._given is None:
            await adapter.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
