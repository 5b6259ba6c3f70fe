"""Turns that are cancelled, wherever they are: they end as interrupted, and the session goes on."""

import asyncio
import time
from contextlib import aclosing

import msgspec
import pytest
from histories import fit, says
from making import agent
from playing import Player, calls
from test_talk import Office

from halo.errors import ProviderError
from halo.models.adapter import Finished, Retrying
from halo.models.retrying import Patience, RetryingAdapter
from halo.records.events import ContextShortened, MessageAdded, TurnEnded
from halo.records.usage import Usage
from halo.sessions.choice import choose
from halo.sessions.talk import talk

MODEL = {"provider": "openai", "id": "m", "max_tokens": 500}
CONTEXT = {"max_tokens": 6000, "strategies": ["summarise", "truncate"]}


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/a/agent.yaml": agent(tools=["grep"], context=CONTEXT, model=MODEL),
        ".halo/agents/a/AGENT.md": "You are a.\n",
        "notes.txt": "a needle\n",
    }
    return Office(make_workspace(files).without_templates())


class Scripted(Player):
    """Looks something up, then answers at length; sums up when it is asked to. Counts no tokens."""

    def __init__(self):
        super().__init__()
        self.step = 0

    async def stream(self, request):
        summary = request.tool_choice == "none"
        self.step += not summary
        reply = (
            says("the gist") if summary else calls(f"c{self.step}") if self.step == 1 else says("word " * 400)
        )
        self.replies = [reply]
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                await asyncio.sleep(0)
                last = isinstance(event, Finished)
                yield msgspec.structs.replace(event, usage=Usage()) if last else event


def started(office, player, message, show=None):
    office.desk.adapter = lambda _artifact, _target: player
    choice = choose(office.sessions, "a", "cli", home=office.sessions, named=None, new=False)
    return talk(office.desk, choice, message, show or office.shown.append, frozen=False)


def cancelled_after(office, player, message, steps):
    """Run a turn and cancel it after so many steps of the event loop; tell whether it was still running."""

    async def go():
        task = asyncio.ensure_future(started(office, player, message))
        for _ in range(steps):
            await asyncio.sleep(0)
        running = task.cancel()
        await asyncio.wait([task])
        return running and task.cancelled()

    return asyncio.run(go())


def test_wherever_a_turn_is_cancelled_the_session_goes_on_and_nothing_is_said_twice(office):
    """One session, whose turns are cancelled one step later each time, until one is not cancelled any more."""
    asyncio.run(started(office, Scripted(), "first " * 2_000))
    ends, steps, shortened = [], 0, 0
    while "done" not in ends:
        seen = office.folder.read().seq
        message = f"message {steps} {'x' * 6000}"
        running = cancelled_after(office, player := Scripted(), message, steps)
        recorded = [(e, d) for e, d in office.recorded() if e.seq > seen]
        conversation = office.folder.read()
        assert conversation.open_calls == {}
        assert conversation.damaged == []
        assert fit(conversation.history())
        assert "adapter closed" in player.order[-1:] or not player.order
        shortened += sum(isinstance(d, ContextShortened) for _, d in recorded)
        said = [d for _, d in recorded if isinstance(d, MessageAdded) and d.message.text == message]
        if recorded:  # else it was cancelled before it began
            assert len(said) == 1
            assert isinstance(recorded[-1][1], TurnEnded)
            ends.append(recorded[-1][1].reason)
            # Once its end is recorded a turn is done, even if whoever waits for it is cancelled after that.
            assert ends[-1] == "done" or (running and ends[-1] == "interrupted")
        for request in player.requests:
            assert fit(request.history) or request.tool_choice == "none"
            assert sum(m.text == message for m in request.history) <= 1
        steps += 1
        assert steps < 2_000
    assert "interrupted" in ends
    assert shortened > 1


def test_a_wait_before_another_attempt_is_cancelled_at_once(office):
    down = ProviderError("overloaded", kind="rate_limit", retry_after=60.0)
    player = Player(down, down)
    retrying = RetryingAdapter(player, Patience(first=60.0))

    async def go():
        waits = asyncio.Event()
        show = lambda event: isinstance(event, Retrying) and waits.set()  # noqa: E731
        task = asyncio.create_task(started(office, retrying, "first", show))
        seen = asyncio.create_task(waits.wait())
        # A turn that ends without a wait is told as what it is; else this would wait for one for ever.
        await asyncio.wait({task, seen}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert seen.done(), task
        began = time.monotonic()
        task.cancel()
        await asyncio.wait({task}, timeout=60)
        assert task.cancelled()
        return time.monotonic() - began

    assert asyncio.run(go()) < 5
    assert len(player.requests) == 1
    conversation = office.folder.read()
    assert conversation.ended == TurnEnded("interrupted")
    # What the failed attempt said is void.
    assert [m.text for m in conversation.history()] == ["first"]
    after = Player(says("Hello."))
    asyncio.run(started(office, after, "second"))
    assert [m.text for m in after.requests[0].history] == ["first", "second"]
