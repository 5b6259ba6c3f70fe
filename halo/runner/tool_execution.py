"""The calls of a reply: each is run and answered, or answered with the reason why it is not run."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from halo.models.adapter import StopReason
from halo.records.events import Repaired, ToolResultAdded
from halo.records.messages import ToolCall, ToolResult
from halo.runner.budgets import Ledger
from halo.runner.deadline import Over, time_bound, within_time
from halo.runner.repair import CUT_OFF, Storms, waves
from halo.tools.toolbox import Toolbox

NOT_RUN = "This call was not run: the provider refused to go on."
OUT_OF_TIME = "This call was broken off: the time for this turn is over. It may have taken effect."
NOT_BEGUN = "This call was not run: {bound} is reached."

Answer = ToolResultAdded | Repaired


class ToolExecution:
    """Runs the calls of one turn, reply after reply. Whatever happens, every call is answered, in order."""

    def __init__(self, toolbox: Toolbox, ledger: Ledger, clock: Callable[[], float]) -> None:
        """`clock` is in seconds."""
        self._toolbox, self._ledger, self._clock = toolbox, ledger, clock
        self._storms = Storms()
        self._late = False  # the time was over while calls ran

    @property
    def in_a_storm(self) -> bool:
        """Whether the model made the same call so often that the turn should end."""
        return self._storms.over

    async def answer(self, calls: tuple[ToolCall, ...], stop: StopReason) -> AsyncGenerator[Answer, None]:
        """Answer every call of a reply that stopped for the reason `stop`."""
        if stop == "refusal":
            for call in calls:
                yield ToolResultAdded(ToolResult(call.id, NOT_RUN, is_error=True), call.name)
            return
        # The last call may be cut short, even where it looks whole.
        cut = calls[-1].id if stop == "max_tokens" else None
        self._storms.begin()
        for wave in waves(calls):
            refused: dict[str, ToolResult] = {}
            for call in wave:
                if call.id == cut:
                    refused[call.id] = ToolResult(call.id, CUT_OFF, is_error=True)
                elif (storm := self._storms.suppress(call)) is not None:
                    refused[call.id], repair = storm
                    yield repair
            async with aclosing(self._run(wave, refused)) as answers:
                async for answer in answers:
                    yield answer

    async def _run(
        self, calls: list[ToolCall], refused: dict[str, ToolResult]
    ) -> AsyncGenerator[ToolResultAdded, None]:
        """Run calls but for those that have been refused, and answer all of them in order."""
        running = [call for call in calls if call.id not in refused]
        results = within_time(self._toolbox.run_batch(running, self._clock), self._ledger)
        async with aclosing(results) as batch:
            for call in calls:
                if call.id in refused:
                    yield ToolResultAdded(refused[call.id], call.name)
                    continue
                took = 0
                if self._late:
                    text = NOT_BEGUN.format(bound=time_bound(self._ledger).bound)
                    result = ToolResult(call.id, text, is_error=True)
                else:
                    try:
                        _, result, took = await anext(batch)
                        self._storms.note(call, result)
                    except Over:
                        self._late = True
                        result = ToolResult(call.id, OUT_OF_TIME, is_error=True)
                yield ToolResultAdded(result, call.name, took)
