"""An agent of a workspace as an object."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, Self

import msgspec

from halo.errors import BusyError, UsageError
from halo.library.functions import FunctionTool
from halo.library.memory import Memory
from halo.library.objects import ObjectError, Wanted, complaint
from halo.library.results import Gathered, Object, Reply, Result, Stats
from halo.library.stage import Stage
from halo.library.text_stream import Emit, TextStream
from halo.library.workspace import Workspace
from halo.models.adapter import Adapter, Finished, Retrying, TextDelta
from halo.models.prefix import Prefix, PrefixChange, compare
from halo.records.budgets import Budgets
from halo.records.events import MessageAdded, TurnEnded, UsageReported
from halo.records.messages import Block, Message, Text, ToolCall, ToolResult, user
from halo.records.targets import Access, AgentTarget, Role
from halo.records.usage import Usage
from halo.runner.calls import call_ids, fresh_ids
from halo.runner.turn import TurnEvent

Input = str | Message | Sequence[Block]

# A reply without a word: no history holds a message without a block.
_NOTHING = Message("assistant", (Text(""),))


class Agent:
    """An agent with a history in memory. One turn at a time; many agents may run side by side.

    Its prefix (system text, tools, few-shots) comes from an artifact and stays the same, byte for byte, until
    you change it; every change is kept in `prefix_changes` with what it costs. Close it, or use it as an
    async context manager.
    """

    def __init__(self, stage: Stage) -> None:
        """Use `load`."""
        self._stage = stage
        self._memory = Memory()
        self._busy = False
        self._stats = Stats()
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
        return cls(Stage(workspace, target, _functions(tools), budgets, adapter))

    # What it is.

    @property
    def prefix(self) -> Prefix:
        """What every request begins with."""
        return self._stage.prefix

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._memory.messages

    @property
    def notices(self) -> tuple[str, ...]:
        """What you should know: tools it is loaded without and why, values that are missing."""
        return self._stage.notices

    @property
    def stats(self) -> Stats:
        """What it has used so far."""
        return self._stats

    def clear_history(self) -> None:
        """Forget the conversation. The prefix stays, and with it what the provider has cached of it."""
        with self._idle():
            self._memory = Memory()

    def take_history(self, messages: Iterable[Message]) -> None:
        """Go on from a conversation of elsewhere, whole: calls, their ids and their results stay.

        Calls without a result get one that says so, results without a call are left out.
        """
        from halo.runner.mending import mend

        with self._idle():
            mended, _ = mend(tuple(messages))
            self._memory = Memory(mended)

    # Changes of the prefix.

    def add_tools(self, *tools: FunctionTool[..., Any]) -> PrefixChange | None:
        """Give it more functions; one with the name of another takes its place."""
        names = {tool.spec.name for tool in _functions(tools)}
        kept = (t for t in self._stage.tools if t.spec.name not in names)
        return self._change(tools=(*kept, *tools))

    def remove_tools(self, *names: str) -> PrefixChange | None:
        """Take functions away. Raises UsageError for a name that it does not have."""
        have = [tool.spec.name for tool in self._stage.tools]
        for name in names:
            if name not in have:
                raise UsageError(
                    f"no function {name!r} was added", hint=f"there are: {', '.join(have) or 'none'}"
                )
        return self._change(tools=tuple(t for t in self._stage.tools if t.spec.name not in names))

    def set_layers(self, layers: Mapping[str, str | None]) -> PrefixChange | None:
        """Lay text over the files of the workspace, in memory: `{".halo/agents/default/AGENT.md": "..."}`.

        Few-shots, skills and whatever else is not named stay. None takes a file away.
        """
        return self._change(layers=layers)

    def reload(self) -> PrefixChange | None:
        """Take the fresh artifact and the present time, if there is another; None when nothing changed."""
        return self._change()

    def _change(
        self,
        *,
        tools: tuple[FunctionTool[..., Any], ...] | None = None,
        layers: Mapping[str, str | None] | None = None,
    ) -> PrefixChange | None:
        with self._idle():
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
            async with aclosing(self._turn(asked)) as events:
                async for event in events:
                    gathered.add(event)
                    emit(event)
            return gathered.result()

        stream = TextStream(run)
        self._streams.add(stream)
        stream.when_over(self._streams.discard)
        return stream

    async def _turn(self, message: Message) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn and keep what it records."""
        with self._idle():
            before, self._memory = self._memory, self._memory.copy()
            unrecorded: list[str] = []
            spoke = False
            try:
                self._memory.add(message)
                async with aclosing(self._stage.run(self._memory.history, lambda: self._stats)) as events:
                    async for event in events:
                        self._memory.feed(event)
                        self._count(event)
                        spoke = spoke or isinstance(event, MessageAdded)
                        _follow(unrecorded, event)
                        yield event
            except (asyncio.CancelledError, GeneratorExit):
                # Who broke it off has read what was said so far: it stays.
                if unrecorded:
                    self._memory.add(Message("assistant", (Text("".join(unrecorded)),)))
                elif not spoke:
                    self._memory = before
                raise
            except BaseException:
                if not spoke:
                    self._memory = before
                raise
            finally:
                self._memory.settle()

    async def generate_object(self, message: Input, schema: dict[str, Any] | type) -> Object:
        """Ask for a value of a JSON Schema or of a type that `msgspec` can describe; tools are not called.

        A reply that does not fit goes back to the model once, with what is wrong. The history gets the
        message and the valid reply. Raises ObjectError when the second reply does not fit either; the history
        is then as it was.
        """
        wanted = Wanted(schema)
        with self._idle():
            changed = self._memory.copy()
            changed.add(as_message(message))
            asked = changed.messages
            first = await self._call(asked, schema=wanted.schema)
            try:
                value, last, usage = wanted.read(first), first, first.usage
            except ValueError as wrong:
                again = (*asked, _spoken(first.message), user(complaint(wrong)))
                last = await self._call(again, schema=wanted.schema)
                usage = first.usage + last.usage
                try:
                    value = wanted.read(last)
                except ValueError as still:
                    raise ObjectError(still, last.message.text) from still
            changed.add(_spoken(last.message))
            self._memory = changed
            self._stats = msgspec.structs.replace(self._stats, turns=self._stats.turns + 1)
            return Object(value, usage, repaired=last is not first)

    # One call at a time.

    async def send(self, message: Input) -> Reply:
        """Make one model call. Its calls are yours to answer, all together, by `submit_tool_results`.

        Raises UsageError while calls are open. A call that fails leaves no trace.
        """
        return await self._step(lambda memory: memory.add(as_message(message)))

    async def submit_tool_results(self, results: Mapping[str, str] | Iterable[ToolResult]) -> Reply:
        """Answer every open call and make the next model call.

        `results` by id of the call, or as `ToolResult`s. Raises UsageError, and changes nothing, unless they
        answer exactly the calls that are open.
        """
        if isinstance(results, Mapping):
            results = [ToolResult(call, text) for call, text in results.items()]
        given = {result.call_id: result for result in results}
        missing = [call for call in self._memory.open_calls if call not in given]
        strange = [call for call in given if call not in self._memory.open_calls]
        if missing or strange:
            raise UsageError(
                "; ".join(
                    [f"no result for {call}" for call in missing]
                    + [f"no open call {call}" for call in strange]
                ),
                hint="answer all calls of the last reply together, each by its id",
            )

        def answer(memory: Memory) -> None:
            for call in memory.open_calls:
                memory.answer(given[call])

        return await self._step(answer, open_calls=True)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Run a call by the tools of the agent, as a whole turn would."""
        return await self._stage.execute(call)

    async def warm(self) -> Usage:
        """Have the provider read the prefix, so that the next turn finds it cached; one token is produced.

        The very same prefix goes out, tools and few-shots included.
        """
        with self._idle():
            return (await self._call((user("."),), max_tokens=1)).usage

    async def _step(self, change: Callable[[Memory], None], *, open_calls: bool = False) -> Reply:
        with self._idle():
            if bool(self._memory.open_calls) != open_calls:
                raise UsageError("calls are open", hint="answer them first: submit_tool_results")
            changed = self._memory.copy()
            change(changed)
            finished = await self._call(changed.messages)
            taken = call_ids(self.prefix.few_shots) | call_ids(changed.messages)
            message = fresh_ids(finished.message if finished.message.content else _NOTHING, taken)
            changed.add(message)
            self._memory = changed
            if not message.calls:
                self._stats = msgspec.structs.replace(self._stats, turns=self._stats.turns + 1)
            return Reply(message, finished.stop_reason, finished.usage)

    async def _call(
        self,
        history: tuple[Message, ...],
        *,
        schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> Finished:
        finished, figures = await self._stage.call(history, schema=schema, max_tokens=max_tokens)
        self._count(figures)
        return finished

    def _count(self, event: TurnEvent) -> None:
        if isinstance(event, UsageReported):
            self._stats = self._stats.with_call(event)
        elif isinstance(event, TurnEnded):
            self._stats = msgspec.structs.replace(self._stats, turns=self._stats.turns + 1)

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Hold the agent. Raises BusyError while a turn runs: two would write into one history."""
        if self._busy:
            raise BusyError("a turn of this agent is running", hint="wait for it, or load another agent")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

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


def as_message(message: Input) -> Message:
    """Return a user's message. Raises UsageError for one without anything in it."""
    if isinstance(message, str):
        message = user(message)
    elif not isinstance(message, Message):
        message = Message("user", tuple(message))
    if message.role != "user" or not any(not isinstance(b, Text) or b.text.strip() for b in message.content):
        raise UsageError("a turn begins with a user's message that says something")
    if any(isinstance(block, (ToolCall, ToolResult)) for block in message.content):
        raise UsageError(
            "a message holds calls or results of tools",
            hint="submit_tool_results answers calls; take_history goes on from a conversation of elsewhere",
        )
    return message


def _functions(tools: Iterable[Any]) -> tuple[FunctionTool[..., Any], ...]:
    """Return the functions of a program. Raises TypeError for one that is no tool yet."""
    tools = tuple(tools)
    for function in tools:
        if not isinstance(function, FunctionTool):
            name = getattr(function, "__name__", repr(function))
            raise TypeError(f"{name} is no tool: decorate it with @halo.tool")
    return tools


def _spoken(message: Message) -> Message:
    """Return what was said, without calls that nobody will answer."""
    kept = tuple(block for block in message.content if not isinstance(block, ToolCall))
    return Message("assistant", kept) if kept else _NOTHING


def _follow(unrecorded: list[str], event: TurnEvent) -> None:
    """Keep the words that no recorded message holds yet."""
    if isinstance(event, TextDelta):
        unrecorded.append(event.text)
    elif isinstance(event, (MessageAdded, Retrying)):
        unrecorded.clear()
