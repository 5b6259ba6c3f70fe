"""Whole turns under any strategies: what the model is sent is what the log says, wherever the turns break off."""

import asyncio
from contextlib import aclosing

import msgspec
from histories import PICTURE, fit, says
from hypothesis import given, settings
from hypothesis import strategies as st
from making import body, compiled
from test_history import CREATED, STARTED, lines

from halo.errors import ProviderError
from halo.models.adapter import Finished, Retrying, TextDelta
from halo.records.artifacts import Artifact
from halo.records.budgets import Budget, Budgets
from halo.records.events import NAMES, ContextShortened, MessageAdded, ToolResultAdded, TurnEnded
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.usage import Usage
from halo.runner.context.summarise import INSTRUCTION
from halo.runner.record import message_tokens
from halo.runner.slots import fill
from halo.runner.turn import Turn, run_turn
from halo.sessions.history import fold

MADE = compiled(body("You are a."))


class Unsteady:
    """A model with a window, that follows a script of what goes well and wrong.

    Every request but those for summaries is compared with the log.
    """

    provider = "played"

    def __init__(self, script, window, counts, log):
        self.script, self.window, self.counts, self.log = [*script], window, counts, log
        self.calls = 0

    async def stream(self, request):
        self.calls += 1
        summary = request.tool_choice == "none"
        assert fit(request.history)
        assert (request.history[-1] == INSTRUCTION) == summary
        assert INSTRUCTION not in request.history[:-1]
        if not summary:
            assert request.history == fold(lines(*self.log)).history()
        size = sum(map(message_tokens, request.history))
        if size > self.window:
            raise ProviderError("prompt is too long", kind="overflow")
        kind, length = self.script.pop(0) if self.script else ("say", 3)
        if kind == "overflow":
            raise ProviderError("prompt is too long", kind="overflow")
        if kind == "fail":
            yield TextDelta("Half an ")
            raise ProviderError("down", kind="transient")
        if kind == "retry":
            yield TextDelta("Half an ")
            yield Retrying("busy", 0.0, 1)
        reply = self.reply(kind, length, summary=summary)
        yield TextDelta(reply.text)
        used = {"all": Usage(uncached=size + 50, output=message_tokens(reply)), "few": Usage(3, 0, 0, 1)}
        stop = "tool_calls" if reply.calls else "end"
        yield Finished(reply, stop, used.get(self.counts, Usage()), "m", "digest")

    def reply(self, kind, length, *, summary):
        if kind == "empty":
            return Message("assistant", ())
        if kind in ("call", "skill") and not summary:
            tool = "activate_skill" if kind == "skill" else "grep"
            # Ids repeat, as small models repeat them.
            ids = ["same", *(f"c{self.calls}_{n}" for n in range(length % 4))]
            arguments = f'{{"pattern": "{self.calls}"}}'
            return Message("assistant", (Text("." * length), *(ToolCall(i, tool, arguments) for i in ids)))
        return says("." * length)


class Sized:
    """A toolbox whose results have the given lengths, in turn; some hold a picture."""

    def __init__(self, lengths):
        self.lengths, self.ran = lengths, 0

    def fits(self, _name, _arguments):
        return True

    async def run_batch(self, calls, _clock):
        for call in calls:
            self.ran += 1
            length = self.lengths[self.ran % len(self.lengths)]
            images = (PICTURE,) if length % 7 == 3 else ()
            yield call, ToolResult(call.id, f"{self.ran} ".ljust(length, "."), images=images), 1


KINDS = st.tuples(
    st.sampled_from(["say", "call", "call", "skill", "overflow", "fail", "empty", "retry"]),
    st.integers(1, 2500),
)
RUNTIMES = st.fixed_dictionaries(
    {
        "strategies": st.lists(st.sampled_from(["prune", "summarise", "truncate"]), unique=True).map(tuple),
        "context_tokens": st.integers(300, 4000),
        "max_messages": st.none() | st.integers(2, 12),
        "budgets": st.integers(1, 9).map(lambda steps: Budgets(Budget(steps=steps))),
        "binding": st.just(msgspec.structs.replace(MADE.manifest.runtime.binding, max_tokens=64)),
    }
)


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(KINDS, max_size=25),
    runtime=RUNTIMES,
    window=st.integers(200, 4000),
    counts=st.sampled_from(["all", "few", "none"]),
    lengths=st.lists(st.integers(0, 9000), min_size=1, max_size=5),
    messages=st.lists(st.integers(1, 2500), min_size=1, max_size=6),
    left_at=st.integers(0, 300),
)
def test_the_model_is_sent_what_the_log_says(script, runtime, window, counts, lengths, messages, left_at):
    """The consumer leaves at some event of one turn; the next turn goes on with what is recorded."""
    made = msgspec.structs.replace(MADE.manifest.runtime, **runtime)
    artifact = Artifact("id", MADE.prompt, msgspec.structs.replace(MADE.manifest, runtime=made))
    log = [CREATED]
    model, toolbox = Unsteady(script, window, counts, log), Sized(lengths)

    async def a_turn(asked, left_after):
        log.extend([STARTED, MessageAdded(user(asked))])
        history = fold(lines(*log)).record("a")
        came = 0
        async with aclosing(run_turn(Turn(artifact, fill(artifact, {}), history), model, toolbox)) as events:
            async for event in events:
                came += 1
                if type(event) in NAMES:
                    log.append(event)
                if isinstance(event, ContextShortened):
                    assert history.messages == fold(lines(*log)).history()
                    assert [m.text for m in history.messages].count(asked) == 1
                if came == left_after:
                    break
        return came

    for number, length in enumerate(messages):
        try:
            left_at -= asyncio.run(a_turn(f"message {number} ".ljust(length, "?"), left_at))
        except ProviderError as error:
            log.append(TurnEnded("error", str(error)))
        for call, tool in fold(lines(*log)).open_calls.items():
            log.append(ToolResultAdded(ToolResult(call, "lost", is_error=True), tool, mended=True))
    for end in range(len(log) + 1):
        conversation = fold(lines(*log[:end]))
        assert fit(conversation.history())
        assert conversation.damaged == []
