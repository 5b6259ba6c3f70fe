"""Long conversations for tests: a model that counts what it is sent, and knows what it is asked beside them."""

import asyncio

import msgspec
from making import agent
from playing import Player, says
from test_talk import Office

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.adapter import Finished, TextDelta
from halo.records.messages import Message, ToolCall
from halo.records.usage import Usage
from halo.runner.context.summarise import INSTRUCTION
from halo.runner.record import message_tokens
from halo.sessions.choice import choose
from halo.sessions.talk import run_talk

SUMMARY, AGAIN, NOTES, TURN = "summary", "again", "notes", "turn"


def kind_of(request):
    """What a request asks for, by its last message."""
    text = request.history[-1].text
    if text.startswith(INSTRUCTION.text):
        return SUMMARY
    if text.startswith("The summary lacks"):
        return AGAIN
    return NOTES if text.startswith("This conversation is about to be shortened") else TURN


class Speaker(Player):
    """Answers turns with `replies` in their order, and all else by what it is asked: text or an error.

    A reply may also be a number: an answer of so many characters.
    """

    provider = "spoken"

    def __init__(self, *replies, summary="They spoke of the harbour.", again=None, notes="NO_REPLY"):
        super().__init__(*replies)
        self.beside = {SUMMARY: summary, AGAIN: again or summary, NOTES: notes}
        self.asked = []
        self._moved = None

    async def stream(self, request):
        kind = kind_of(request)
        self.requests.append(request)
        self.asked.append(kind)
        if self._moved is not None:
            self._moved.set()
        reply = self.replies.pop(0) if kind == TURN else self.beside[kind]
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            await asyncio.sleep(3600)
        if isinstance(reply, int):
            reply = says("word " * (reply // 5))
        if isinstance(reply, str):
            reply = says(reply)
        yield TextDelta(reply.text)
        usage = Usage(uncached=weigh(request), output=message_tokens(reply))
        yield Finished(reply, "tool_calls" if reply.calls else "end", usage, "spoken-1", "digest")

    async def until(self, kind):
        """Wait until it is asked for this."""
        while not self.of(kind):
            self._moved = asyncio.Event()
            await self._moved.wait()

    def of(self, kind):
        return [request for request, asked in zip(self.requests, self.asked, strict=True) if asked == kind]


def weigh(request):
    prefix = request.prefix
    return (
        estimate(prefix.system.encode())
        + sum(estimate(canonical_json(tool)) for tool in prefix.tools)
        + sum(map(message_tokens, request.history))
    )


def call(call_id, tool, **arguments):
    return Message("assistant", (ToolCall(call_id, tool, msgspec.json.encode(arguments).decode()),))


class LongOffice(Office):
    """An office with an agent whose window is small; each `say` is a turn of the same session."""

    def say(self, speaker, text="Go.", **options):
        self.desk.adapter = lambda _artifact, _target: speaker
        return run_talk(self.desk, self.choose(**options), text, self.shown.append, frozen=False)

    def choose(self, **options):
        return choose(self.sessions, "a", "cli", home=self.sessions, named=None, new=False, **options)

    def data(self, *kinds):
        return [data for _, data in self.recorded() if isinstance(data, kinds)]

    def history(self):
        return self.folder.read().history()


def files(window=4_000, budgets=None, tools=("file_read", "grep"), body="You are a.", **fields):
    """A workspace of one agent; `fields` are those of its context."""
    made = agent(
        name="Ada",
        tools=list(tools),
        context={"max_tokens": window, **fields},
        budgets=budgets or {},
        model={"provider": "openai", "id": "gpt-x", "max_tokens": 200},
    )
    return {".halo/agents/a/agent.yaml": made, ".halo/agents/a/AGENT.md": f"{body}\n"}
