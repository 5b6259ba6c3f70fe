"""The workspace of the crash harness, and a model whose replies follow from a seed and what it is given."""

import asyncio
import json
import os
import random
import re
import time
from pathlib import Path

from making import agent

from halo.build.builder import Builder
from halo.build.whole import survey
from halo.compiler.tokens import estimate
from halo.models.adapter import Finished, TextDelta
from halo.records.messages import Message, Text, ToolCall, ToolResult
from halo.records.usage import Usage
from halo.runner.context.summarise import INSTRUCTION
from halo.runner.record import message_tokens
from halo.sessions.desk import Desk
from halo.tools import toolbox
from halo.workspace.demands import read_demands
from halo.workspace.places import Places
from halo.workspace.trust_file import record_trust

CONTEXT = {"max_tokens": 6_000}
FILES = {
    ".halo/agents/lead/agent.yaml": agent(
        name="Lead", tools=["file_write", "grep"], team=["worker", "helper"], context=CONTEXT
    ),
    ".halo/agents/worker/agent.yaml": agent(
        name="Worker", tools=["file_write", "grep"], team=["helper", "lead"], context=CONTEXT
    ),
    ".halo/agents/helper/agent.yaml": agent(name="Helper", tools=["file_write"], context=CONTEXT),
    ".halo/settings.yaml": "general:\n  session:\n    delegation: {ping_pong: 2}\n",
    "notes.txt": "a needle\n",
}
WORDS = "harbour buoy tide lantern ferry mast anchor signal keel gull "
SESSION = re.compile(r"\b\d{8}t\d{6}-[0-9a-z]{6}\b")
DONE = "noted"


class Workspace:
    """A workspace with agents that are built, and a file that keeps what its tool does: `effects`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = Places(str(folder / "ws"), str(folder / "home"), str(folder / "templates"), str(folder))
        self.sessions = str(folder / "ws" / ".halo" / "sessions")
        self.effects = folder / "effects"

    def make(self) -> "Workspace":
        for name, text in FILES.items():
            path = self.folder / "ws" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("home", "templates"):
            (self.folder / name).mkdir()
        builder = Builder(self.places)
        for target in survey(builder).targets:
            builder.ensure(target)
        return self

    def trust(self) -> "Workspace":
        """Allow it to change things; that is said of a path, so of each copy anew."""
        places = self.places
        record_trust(places.home, places.workspace, read_demands(places.tree()).digests)
        return self

    def desk(self, seed: str, clock_ns: int = 0) -> Desk:
        """A desk whose clock is off by `clock_ns`, and whose agents are played."""
        desk = Desk(Builder(self.places), {}, str(self.folder / "cache"), lambda: time.time_ns() + clock_ns)
        desk.adapter = lambda _artifact, target: Actor(seed, target.agent)
        return desk

    def note(self) -> None:
        """Let `file_write` append the content to `effects` from now on: done twice, it is there twice."""

        def append(arguments, _around):
            descriptor = os.open(self.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, arguments["content"].encode() + b"\n")
            finally:
                os.close(descriptor)
            return DONE

        toolbox.IMPLEMENTED["file_write"] = append


class Actor:
    """Plays an agent. A task `JOB n` is worked on with tools, sessions and long words; all else is answered."""

    provider = "played"

    def __init__(self, seed: str, name: str) -> None:
        self.seed, self.name = seed, name

    async def close(self) -> None:
        pass

    async def stream(self, request):
        history = request.history
        dice = random.Random(f"{self.seed} {self.name} {len(history)} {history[-1].text}")
        await asyncio.sleep(dice.choice((0, 0, 0.002, 0.01)))
        reply = self._beside(history[-1].text) or self._reply(history, dice)
        for word in reply.text.split(" ", 3):
            yield TextDelta(word + " ")
            await asyncio.sleep(0)
        tokens = estimate(request.prefix.system.encode()) + sum(map(message_tokens, history))
        usage = Usage(uncached=tokens, output=message_tokens(reply))
        yield Finished(reply, "tool_calls" if reply.calls else "end", usage, "played-1", "digest")

    def _beside(self, asked):
        """Answer what Halo asks beside the conversation."""
        if asked.startswith((INSTRUCTION.text, "The summary lacks")):
            return says("They spoke of the harbour.")
        if asked.startswith("This conversation is about to be shortened"):
            return says(f"- the light of {os.urandom(4).hex()} is green")
        return None

    def _reply(self, history, dice):
        task, steps = task_of(history)
        job = re.search(r"\bJOB (\d)", task)
        if job is None or steps >= dice.choice((2, 3, 3, 4)):
            return says(WORDS * dice.choice((0, 1, 1, 30, 120)) + "Done.")
        known = dict.fromkeys(SESSION.findall(" ".join(texts(history))))
        calls = [self._call(int(job[1]), list(known), dice) for _ in range(dice.choice((1, 1, 2, 3)))]
        return Message("assistant", (Text(WORDS * dice.choice((0, 1, 20)) + "I see."), *calls))

    def _call(self, job, known, dice):
        token = os.urandom(8).hex()  # of its own, so that a call that runs again leaves a line of its own
        kind = dice.choice(
            ("note", "note", "start", "start", "send", "stop" if dice.random() < 0.2 else "note")
        )
        if kind == "start" and job > 0 and self.name != "helper":
            who = dice.choice(("worker", "helper")) if self.name == "lead" else "helper"
            arguments = {
                "agent_id": who,
                "message": f"JOB {job - 1}",
                "cleanup": dice.choice(("keep", "keep", "delete")),
            }
            return made(token, "start_session", arguments)
        if kind == "send" and known and job > 0 and self.name != "helper":
            arguments = {
                "session_id": dice.choice(known),
                "message": f"JOB 0, {token}",
                "wait_seconds": dice.choice((0, 1, 1)),
            }
            return made(
                token, dice.choice(("query_session", "query_session", "interrupt_session")), arguments
            )
        if kind == "stop" and known and self.name != "helper":
            return made(token, "stop_session", {"session_id": dice.choice(known)})
        return made(token, "file_write", {"path": "x", "content": token})


def says(text):
    return Message("assistant", (Text(text),))


def made(token, tool, arguments):
    return ToolCall(token, tool, json.dumps(arguments))


def task_of(history):
    """The last message that is no result of a tool, and how often the model has spoken since."""
    steps = 0
    for message in reversed(history):
        if message.role == "assistant":
            steps += 1
        elif not any(isinstance(block, ToolResult) for block in message.content):
            return message.text, steps
    return "", steps


def texts(history):
    for message in history:
        for block in message.content:
            if isinstance(block, Text | ToolResult):
                yield block.text
