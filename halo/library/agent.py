"""An agent of a workspace as an object."""

import os
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from halo.library import manual
from halo.library.functions import FunctionTool, Tools, checked, with_added, without
from halo.library.inputs import Input, as_message
from halo.library.memory import Memory
from halo.library.objects import Wanted, obtain
from halo.library.results import Gathered, Object, Reply, Result, Stats
from halo.library.stage import Stage
from halo.library.state import AgentState
from halo.library.text_stream import Emit, TextStream
from halo.library.workspace import Workspace
from halo.models.adapter import Adapter, Finished
from halo.models.prefix import Prefix, PrefixChange, compare
from halo.records.budgets import Budgets
from halo.records.messages import Message, ToolCall, ToolResult, user
from halo.records.targets import Access, AgentTarget, Role
from halo.records.usage import Usage


class Agent:
    """An agent with a history in memory. One turn at a time; many agents may run side by side.

    Its prefix (system text, tools, few-shots) comes from an artifact and stays the same, byte for byte, until
    you change it; every change is kept in `prefix_changes` with what it costs. Close it, or use it as an
    async context manager.
    """

    def __init__(self, stage: Stage) -> None:
        """Use `load`."""
        self._stage = stage
        self._state = AgentState()
        self._streams: set[TextStream] = set()
        self.prefix_changes: list[PrefixChange] = []

    @classmethod
    def load(
        cls,
        workspace: Workspace | str | os.PathLike[str] = ".",
        agent: str = "default",
        *,
        role: Role = "root",
        directory: str = "",
        access: Access | None = None,
        profile: str = "",
        tools: Iterable[FunctionTool[..., Any]] = (),
        budgets: Budgets | None = None,
        adapter: Adapter | None = None,
    ) -> Self:
        """Load an agent from its artifact, which is built if it is not fresh.

        `tools` are functions of yours (`halo.tool`) beside those that agent.yaml lists. `access` is at most
        what the agent may do; without it, what the settings and your trust in the workspace allow. `budgets`
        stand in the place of agent.yaml's. `adapter` answers in the place of the model that agent.yaml names.
        Raises a HaloError: no such workspace or agent, a broken layer (file and line). The model is opened
        by the first call, which raises StartError for a missing key.
        """
        if not isinstance(workspace, Workspace):
            workspace = Workspace(workspace)
        if budgets is not None and not isinstance(budgets, Budgets):
            raise TypeError("budgets are a `halo.Budgets`, such as Budgets(turn=Budget(steps=5))")
        target = AgentTarget(agent, role, directory, access=access or "full", profile=profile)
        return cls(Stage(workspace, target, checked(tools), budgets, adapter))

    # What it is.

    @property
    def prefix(self) -> Prefix:
        """What every request begins with."""
        return self._stage.prefix

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._state.messages

    @property
    def notices(self) -> tuple[str, ...]:
        """What you should know: tools it is loaded without and why, values that are missing."""
        return self._stage.notices

    @property
    def stats(self) -> Stats:
        """What it has used so far."""
        return self._state.stats

    def clear_history(self) -> None:
        """Forget the conversation. The prefix stays, and with it what the provider has cached of it."""
        self._state.replace()

    def take_history(self, messages: Iterable[Message]) -> None:
        """Go on from a conversation of elsewhere, whole: calls, their ids and their results stay.

        Calls without a result get one that says so, results without a call are left out.
        """
        from halo.runner.mending import mend

        mended, _ = mend(tuple(messages))
        self._state.replace(mended)

    # Changes of the prefix.

    def add_tools(self, *tools: FunctionTool[..., Any]) -> PrefixChange | None:
        """Give it more functions; one with the name of another takes its place."""
        return self._change(tools=with_added(self._stage.tools, checked(tools)))

    def remove_tools(self, *names: str) -> PrefixChange | None:
        """Take functions away. Raises UsageError for a name that it does not have."""
        return self._change(tools=without(self._stage.tools, names))

    def set_layers(self, layers: Mapping[str, str | None]) -> PrefixChange | None:
        """Lay text over the files of the workspace, in memory: `{".halo/agents/default/AGENT.md": "..."}`.

        Few-shots, skills and whatever else is not named stay. None takes a file away.
        """
        return self._change(layers=layers)

    def reload(self) -> PrefixChange | None:
        """Take the fresh artifact and the present time, if there is another; None when nothing changed."""
        return self._change()

    def _change(
        self, *, tools: Tools | None = None, layers: Mapping[str, str | None] | None = None
    ) -> PrefixChange | None:
        with self._state.held():
            before = self.prefix
            self._stage = self._stage.changed(tools, layers)
            change = compare(before, self.prefix)
            if change is not None:
                self.prefix_changes.append(change)
            return change

    # Turns.

    async def generate_text(self, message: Input) -> Result:
        """Run a whole turn: model and tools in alternation until the model is done or a budget is reached.

        Raises ProviderError and other HaloErrors. A turn that failed before the model said anything leaves
        no trace, so that it can be tried again without saying everything twice; one that failed later leaves
        what was said, with every call answered.
        """
        async with self.stream_text(message) as stream:
            return await stream.result()

    def stream_text(self, message: Input) -> TextStream:
        """Run a whole turn and read it while it runs. Needs a running event loop."""

        async def run(emit: Emit) -> Result:
            asked = as_message(message)
            gathered = Gathered(asked)
            turn = self._state.turn(asked, lambda history: self._stage.run(history, lambda: self.stats))
            async with aclosing(turn) as events:
                async for event in events:
                    gathered.add(event)
                    emit(event)
            return gathered.result()

        stream = TextStream(run)
        self._streams.add(stream)
        stream.when_over(self._streams.discard)
        return stream

    async def generate_object(self, message: Input, schema: dict[str, Any] | type) -> Object:
        """Ask for a value of a JSON Schema or of a type that `msgspec` can describe; tools are not called.

        A reply that does not fit goes back to the model once, with what is wrong. The history gets the
        message and the valid reply. Raises ObjectError when the second reply does not fit either; the history
        is then as it was. Raises UsageError for what is no schema, before anything is sent.
        """
        wanted = Wanted(schema)
        with self._state.changing() as memory:
            memory.add(as_message(message))
            made, reply = await obtain(
                wanted, memory.messages, lambda history: self._call(history, schema=wanted.schema)
            )
            memory.add(reply)
            self._state.count_turn()
            return made

    # One call at a time.

    async def send(self, message: Input) -> Reply:
        """Make one model call. Its calls are yours to answer, all together, by `submit_tool_results`.

        Raises UsageError while calls are open. A call that fails leaves no trace.
        """
        with self._state.changing() as memory:
            manual.ask(memory, message)
            self._stage.begin_turn()
            return await self._step(memory)

    async def submit_tool_results(self, results: manual.Results) -> Reply:
        """Answer every open call and make the next model call.

        `results` by id of the call, or as `ToolResult`s. Raises UsageError, and changes nothing, unless they
        answer exactly the calls that are open.
        """
        with self._state.changing() as memory:
            manual.answer(memory, results)
            return await self._step(memory)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Run a call by the tools of the agent, as a whole turn would."""
        return await self._stage.execute(call)

    async def warm(self) -> Usage:
        """Have the provider read the prefix, so that the next turn finds it cached; one token is produced.

        The very same prefix goes out, tools and few-shots included.
        """
        with self._state.held():
            return (await self._call((user("."),), max_tokens=1)).usage

    async def _step(self, memory: Memory) -> Reply:
        finished = await self._call(memory.messages)
        reply = manual.take(memory, finished, self.prefix.few_shots)
        if not reply.calls:
            self._state.count_turn()
        return reply

    async def _call(
        self,
        history: tuple[Message, ...],
        *,
        schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> Finished:
        return await self._stage.call(history, self._state.count, schema=schema, max_tokens=max_tokens)

    async def close(self) -> None:
        """Break off a turn that runs, and let go of connections and engines. May be called twice."""
        for stream in tuple(self._streams):
            await stream.aclose()
        await self._stage.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
