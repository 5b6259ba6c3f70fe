"""Manual control: one model call at a time, whose tool calls the program answers.

What a history takes at each of these steps. Who makes the call is `Agent`.
"""

from collections.abc import Iterable, Mapping

from halo.errors import UsageError
from halo.library.inputs import Input, as_message
from halo.library.memory import Memory
from halo.library.results import Reply
from halo.models.adapter import Finished
from halo.records.messages import Message, ToolResult
from halo.runner.calls import call_ids, fresh_ids
from halo.runner.repair import not_empty

# By id of the call, or results that name it themselves.
Results = Mapping[str, str] | Iterable[ToolResult]


def ask(memory: Memory, message: Input) -> None:
    """Add a user's message. Raises UsageError while calls are open."""
    if memory.open_calls:
        raise UsageError("calls are open", hint="answer them first: submit_tool_results")
    memory.add(as_message(message))


def answer(memory: Memory, results: Results) -> None:
    """Answer every open call. Raises UsageError unless `results` answer exactly the calls that are open."""
    if isinstance(results, Mapping):
        results = [ToolResult(call, text) for call, text in results.items()]
    given = {result.call_id: result for result in results}
    wrong = [
        *(f"no result for {call}" for call in memory.open_calls if call not in given),
        *(f"no open call {call}" for call in given if call not in memory.open_calls),
    ]
    if wrong:
        raise UsageError("; ".join(wrong), hint="answer all calls of the last reply together, each by its id")
    if not given:
        raise UsageError("no calls are open", hint="send a message: send")
    for call in memory.open_calls:
        memory.answer(given[call])


def take(memory: Memory, finished: Finished, few_shots: tuple[Message, ...]) -> Reply:
    """Add what the model said. Its calls get ids of their own, and are open from now on."""
    taken = call_ids(few_shots) | call_ids(memory.messages)
    message = fresh_ids(not_empty(finished.message), taken)
    memory.add(message)
    return Reply(message, finished.stop_reason, finished.usage)
