"""One turn: a user's message, then model and tools in alternation until the model is done."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from halo.models.adapter import Adapter, Finished, Notice, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.prefix import Prefix
from halo.records.artifacts import Artifact
from halo.records.events import (
    ContextShortened,
    EndReason,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    UsageReported,
)
from halo.records.messages import Message, Text, ToolResult
from halo.runner.calls import call_ids, fresh_ids
from halo.runner.slots import Filled
from halo.runner.threads import tool_work
from halo.tools.toolbox import Toolbox

# Model calls in a turn. A loop that needs more is lost.
MOST_STEPS = 25

NOT_RUN = "This call was not run: the provider refused to go on."

TurnEvent = (
    MessageAdded
    | ToolResultAdded
    | UsageReported
    | ContextShortened
    | Repaired
    | TurnEnded
    | TextDelta
    | ThinkingDelta
    | Retrying
    | Notice
)


class Turn(NamedTuple):
    """What a turn is made of. `history` ends with the user's message."""

    artifact: Artifact
    system: Filled
    history: tuple[Message, ...]


async def run_turn(
    turn: Turn, adapter: Adapter, toolbox: Toolbox, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[TurnEvent, None]:
    """Run a turn and yield what happens, in order.

    Whoever consumes it keeps the records (`MessageAdded`, `ToolResultAdded`, `UsageReported`,
    `TurnEnded`) before asking for the next event: nothing goes on before it is kept. Ends with
    `TurnEnded`, or raises what the adapter raises. A consumer that breaks off closes this generator, which
    closes the adapter's stream before anybody closes the adapter. `clock` is in seconds.
    """
    runtime = turn.artifact.manifest.runtime
    assert runtime is not None  # noqa: S101  # agents have one
    manifest = turn.artifact.manifest
    prefix = Prefix(
        turn.system.text,
        turn.system.static_prefix,
        manifest.tools,
        manifest.few_shots,
        manifest.fingerprint,
        turn.artifact.prompt,
    )
    history = turn.history
    taken = call_ids(manifest.few_shots)
    for _ in range(MOST_STEPS):
        request = Request(prefix, history, runtime.binding)
        finished: Finished | None = None
        async with aclosing(adapter.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    finished = event
                else:
                    yield event
        assert finished is not None  # noqa: S101  # the adapter's promise
        message = finished.message if finished.message.content else Message("assistant", (Text(""),))
        message = fresh_ids(message, taken | call_ids(history))
        yield MessageAdded(message)
        yield UsageReported(
            provider=adapter.provider,
            model=finished.model,
            usage=finished.usage,
            request_digest=finished.request_digest,
            stop_reason=finished.stop_reason,
            restored=finished.restored,
            expected=finished.expected,
            prefix=finished.prefix,
        )
        refused = finished.stop_reason == "refusal"
        if refused:
            for call in message.calls:
                yield ToolResultAdded(ToolResult(call.id, NOT_RUN, is_error=True), call.name)
        if refused or not message.calls:
            yield TurnEnded(_reason(finished))
            return
        results = []
        for call in message.calls:
            began = clock()
            with tool_work():
                result = await toolbox.run(call)
            results.append(result)
            yield ToolResultAdded(result, call.name, round((clock() - began) * 1000))
        history = (*history, message, Message("user", tuple(results)))
    yield TurnEnded("steps")


def _reason(finished: Finished) -> EndReason:
    match finished.stop_reason:
        case "max_tokens" | "refusal" as reason:
            return reason
        case _:
            return "done"
