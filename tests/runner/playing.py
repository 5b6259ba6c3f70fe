"""A model that says what it is told to, for tests of turns."""

import asyncio

from halo.models.adapter import Finished, TextDelta
from halo.records.messages import Message, Text, ToolCall, ToolResult
from halo.records.usage import Usage


class Player:
    """An adapter whose replies are given: messages, errors to raise, or `None` to hang.

    `order` lists what was opened and closed; `requests` what was asked.
    """

    provider = "played"

    def __init__(self, *replies, stop=None):
        self.replies = list(replies)
        self.stop = stop
        self.requests = []
        self.order = []

    async def stream(self, request):
        self.requests.append(request)
        self.order.append("stream opened")
        try:
            reply = self.replies.pop(0)
            if isinstance(reply, Exception):
                yield TextDelta("Half an ")
                raise reply
            if reply is None:
                yield TextDelta("Half an ")
                await asyncio.sleep(3600)
            if reply.text:
                yield TextDelta(reply.text)
            stop = self.stop or ("tool_calls" if reply.calls else "end")
            yield Finished(reply, stop, Usage(uncached=3, output=2), "played-1", "digest")
        finally:
            await asyncio.sleep(0)  # closing a real stream takes a while too
            self.order.append("stream closed")

    async def close(self):
        self.order.append("adapter closed")


class Bench:
    """A toolbox whose results tell the calls apart by their order, unless `always` is every result."""

    def __init__(self, always=None, seconds=0.0):
        self.ran = []
        self.always, self.seconds = always, seconds

    def fits(self, name, arguments):
        return name == "grep" and set(arguments) <= {"pattern"}

    async def run_batch(self, calls, clock):
        for call in calls:
            began = clock()
            self.ran.append(call)
            await asyncio.sleep(self.seconds)
            result = ToolResult(call.id, self.always or f"result {len(self.ran)}")
            yield call, result, round((clock() - began) * 1000)


def says(text):
    return Message("assistant", (Text(text),))


def calls(*ids):
    return Message("assistant", tuple(ToolCall(i, "grep", "{}") for i in ids))
