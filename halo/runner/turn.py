"""One turn: a user's message, then model and tools in alternation until the model is done.

How a model is called is in `model_call`, how its calls are answered in `tool_execution`, what ends either of
them in time in `deadline`.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from halo.models.adapter import Adapter, Finished, Notice
from halo.models.prefix import Prefix
from halo.records.artifacts import Artifact
from halo.records.events import EndReason, MessageAdded, Repaired, ToolResultAdded, TurnEnded
from halo.records.messages import Message, Thinking, ToolResult
from halo.runner.budgets import Ledger, Price, free, turn_ledger
from halo.runner.calls import call_ids, fresh_ids
from halo.runner.context.flushing import Flush
from halo.runner.deadline import Over
from halo.runner.model_call import CallEvent, ModelCalls, Reply
from halo.runner.record import History
from halo.runner.repair import Fits, mend_arguments, not_empty
from halo.runner.reporting import charge, report
from halo.runner.slots import Filled
from halo.runner.tool_execution import Answer, ToolExecution
from halo.tools.toolbox import Toolbox

TurnEvent = CallEvent | Answer | TurnEnded

# Why a reply holds thoughts alone, as far as the provider says.
_WHY = {"max_tokens": ": `max_tokens` were over before", "refusal": ": the reply was refused"}


class Turn(NamedTuple):
    """What a turn is made of. `history` ends with the user's message; it grows with the turn.

    `cold`: the provider's cache holds nothing of that history. `flush` keeps notes of what is lost when it is
    shortened; without one nothing is kept.
    """

    artifact: Artifact
    system: Filled
    history: History
    cold: bool = False
    flush: Flush | None = None

    @property
    def prefix(self) -> Prefix:
        """What every request of the turn begins with."""
        manifest = self.artifact.manifest
        return Prefix(
            self.system.text,
            self.system.static_prefix,
            manifest.tools,
            manifest.few_shots,
            manifest.fingerprint,
            self.artifact.prompt,
        )


async def run_turn(
    turn: Turn,
    adapter: Adapter,
    toolbox: Toolbox,
    *,
    ledger: Ledger | None = None,
    price: Price = free,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[TurnEvent, None]:
    """Run a turn and yield what happens, in order.

    Whoever consumes it keeps the records (all but deltas, `Retrying` and `Notice`) before asking for the next
    event: nothing goes on before it is kept. Ends with `TurnEnded`, or raises what the adapter raises, and
    StartError for a budget in money without a price. A consumer that breaks off closes this generator, which
    ends the call or the tools that run. `clock` is in seconds.
    """
    prefix, runtime, history = turn.prefix, turn.artifact.runtime, turn.history
    ledger = ledger or turn_ledger(runtime.budgets, clock)
    ledger.check_priced(price, runtime.binding.model)
    model = ModelCalls(prefix, runtime, history, adapter, ledger, price, cold=turn.cold, flush=turn.flush)
    tools = ToolExecution(toolbox, ledger, clock)
    few_shot_ids = call_ids(prefix.few_shots)
    while True:
        # The model speaks.
        reply: Reply | None = None
        try:
            async with aclosing(model.next_reply()) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        reply = event
                    else:
                        yield event
        except Over as over:
            yield Notice(f"the turn ends: {over.reached.bound} is reached")
            yield TurnEnded(over.reached.reason)
            return
        assert reply is not None  # noqa: S101  # it comes last
        finished = reply.finished

        # What it said is mended, kept and charged.
        message, repairs = _kept(finished, few_shot_ids | history.call_ids, toolbox.fits)
        for repair in repairs:
            yield repair
        history.extend((message,))
        if finished.usage.prompt:  # some servers count nothing, or only what they produce
            history.measured(finished.usage.prompt + finished.usage.output)
        yield MessageAdded(message)
        yield charge(ledger, price, report(adapter.provider, finished, reply.attempts))
        if not message.calls:
            if _only_thoughts(message):
                yield Notice(f"the model has thought and said nothing{_WHY.get(finished.stop_reason, '')}")
            yield TurnEnded(_end(finished, message))
            return

        # Its calls are answered, all of them, and it goes round.
        results: list[ToolResult] = []
        async with aclosing(tools.answer(message.calls, finished.stop_reason)) as answers:
            async for answer in answers:
                if isinstance(answer, ToolResultAdded):
                    results.append(answer.result)
                yield answer
        history.extend((Message("user", tuple(results)),))
        if finished.stop_reason == "refusal":
            yield TurnEnded("refusal")
            return
        if tools.in_a_storm:
            yield Notice("the turn ends: the model makes the same call again and again")
            yield TurnEnded("storm")
            return


def _kept(finished: Finished, taken: set[str], fits: Fits) -> tuple[Message, list[Repaired]]:
    """Return the message as the history takes it: never empty, with ids of its own and mended arguments."""
    message = fresh_ids(not_empty(finished.message), taken)
    return mend_arguments(message, finished.stop_reason, fits)


def _end(finished: Finished, message: Message) -> EndReason:
    match finished.stop_reason:
        case "max_tokens" | "refusal" as reason:
            return reason
        case _:
            return "silent" if _only_thoughts(message) else "done"


def _only_thoughts(message: Message) -> bool:
    return not message.text.strip() and any(isinstance(block, Thinking) for block in message.content)
