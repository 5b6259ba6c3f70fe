"""Calls beside the conversation: the model is asked something about a copy of its history, without tools."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from halo.errors import HaloError, ProviderError
from halo.models.adapter import Adapter, Finished, Lost, Notice, Request, Retrying
from halo.models.prefix import Prefix
from halo.records.artifacts import Binding
from halo.records.events import UsageLost, UsageReported
from halo.records.messages import Message
from halo.runner.reporting import report, report_lost

# What is told of such a call: its figures. Its words are for nobody's eyes.
Meanwhile = UsageReported | UsageLost | Notice

Messages = tuple[Message, ...]


class Answer(NamedTuple):
    """What the model answered to `asked`, or why it did not."""

    asked: Messages
    finished: Finished | None
    problem: str = ""


class Asking:
    """Asks one model; `patience` is how many seconds the calls of one `within` may take.

    With the prefix of the conversation, which is read from the cache, and with tools forbidden.
    """

    def __init__(self, prefix: Prefix, binding: Binding, adapter: Adapter, patience: float) -> None:
        self._prefix, self._binding, self._adapter = prefix, binding, adapter
        self.patience = patience

    async def ask(
        self,
        messages: Messages,
        question: Message,
        shorter: Callable[[Messages], Messages],
        events: list[Meanwhile],
    ) -> Answer:
        """Ask about `messages`; once more about `shorter` ones where they are too long for the provider.

        What the calls cost is added to `events`. A model that fails, or takes too long, is a problem; any
        other error is raised.
        """
        asked = (*messages, question)
        try:
            async with asyncio.timeout(self.patience):
                try:
                    return Answer(asked, await self._call(asked, events))
                except ProviderError as error:
                    if error.kind != "overflow":
                        raise
                asked = (*shorter(messages), question)
                return Answer(asked, await self._call(asked, events))
        except TimeoutError:
            return Answer(asked, None, f"it took longer than {self.patience:g} s")
        except HaloError as error:
            return Answer(asked, None, str(error))

    async def _call(self, messages: Messages, events: list[Meanwhile]) -> Finished:
        request = Request(self._prefix, messages, self._binding, tool_choice="none")
        finished: Finished | None = None
        attempts = 1
        async with aclosing(self._adapter.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, Finished):
                    finished = event
                elif isinstance(event, Retrying):
                    attempts += 1
                elif isinstance(event, Lost):
                    events.append(report_lost(self._adapter.provider, event))
                elif isinstance(event, Notice):
                    events.append(event)
        assert finished is not None  # noqa: S101  # the adapter's promise
        events.append(report(self._adapter.provider, finished, attempts))
        return finished
