"""`session_status`: the time and the figures of a session, also of the turn that is running."""

from datetime import UTC, datetime

import msgspec
import pytest
from making import agent
from playing import Player, says

from halo.models.adapter import Finished
from halo.records.artifacts import Runtime
from halo.records.budgets import Budget, Budgets
from halo.records.events import NAMES, Event, TurnStarted, UsageReported
from halo.records.messages import Message, ToolCall, ToolResult
from halo.records.usage import Usage
from halo.runner.budgets import Ledger, turn_ledger
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.history import Conversation
from halo.sessions.spending import spent_of
from halo.sessions.status import Figures, figures_of, status_text
from halo.sessions.talk import run_talk

NOW = datetime(2026, 7, 3, 23, 4, 5, tzinfo=UTC)

FIGURES = Figures(
    turn=3,
    messages=12,
    calls=7,
    usage=Usage(uncached=1000, written=2000, read=9345, output=500),
    expected=10_000,
    filled=12_000,
    window=200_000,
    cost=0.01234,
    currency="USD",
    unpriced=0,
    left={"turn.steps": 20, "run.cost": 0.5, "run.seconds": 1234.6},
)


def line(name, zone="", now=NOW, **changes):
    """Return what stands behind `name:`."""
    lines = status_text(msgspec.structs.replace(FIGURES, **changes), now, zone).split("\n")
    return dict(text.split(": ", 1) for text in lines)[name]


def test_the_whole():
    assert status_text(FIGURES, NOW, "Europe/Oslo") == (
        "time: Saturday, 2026-07-04 01:04:05 Europe/Oslo; Friday, 2026-07-03 23:04:05 UTC\n"
        "session: turn 3, 12 messages, 7 model calls\n"
        "tokens sent: 12,345 (1,000 uncached, 2,000 written to the cache, 9,345 read from it)\n"
        "tokens produced: 500\n"
        "cache: 9,345 tokens came from it; 10,000 were expected to\n"
        "window: 12,000 of 200,000 tokens are filled (6%)\n"
        "cost: 0.0123 USD\n"
        "left: turn.steps 20, run.cost 0.5000 USD, run.seconds 1,235"
    )


@pytest.mark.parametrize("zone", ["", "Nowhere/Else", "../../etc/passwd", "x" * 5000, "a\0b"])
def test_a_zone_that_nobody_knows_costs_only_the_local_time(zone):
    assert line("time", zone) == "Friday, 2026-07-03 23:04:05 UTC; the user's time zone is not known"


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC"])
def test_utc_is_said_once(zone):
    assert line("time", zone) == "Friday, 2026-07-03 23:04:05 UTC"


def test_a_zone_has_the_offset_of_its_day():
    assert "09:04:05 America/Lima" in line("time", "America/Lima", NOW.replace(hour=14))
    assert "00:04:05 Europe/Oslo" in line("time", "Europe/Oslo", NOW.replace(month=12))


def test_what_is_not_known_is_said():
    assert line("cost", currency="", cost=0.0) == "not known, for the model has no price"
    assert line("cost", currency="", cost=0.0, calls=0) == "nothing yet"
    assert line("cost", unpriced=1) == "0.0123 USD, and 1 call without a known price"
    assert line("window", filled=None) == "200,000 tokens; how many are filled is known after the next call"
    assert line("left", left={}) == "no budget is set"
    assert line("cache", expected=0) == "9,345 tokens came from it; none were expected to"


def conversation(*calls):
    made = Conversation()
    for seq, data in enumerate((TurnStarted("a", "f"), *calls), 1):
        raw = msgspec.Raw(msgspec.json.encode(data))
        made.add(Event(1, seq, f"2026-07-03T23:00:{seq:02}.000Z", NAMES[type(data)], 1, raw))
    return made


def test_figures_are_the_sums_of_the_calls_and_the_fill_is_that_of_the_last():
    spent = conversation(
        UsageReported("p", "m", Usage(100, 20, 0, 5), expected=0, cost=0.5, currency="USD"),
        UsageReported("p", "m", Usage(10, 0, 120, 7), expected=125, cost=0.25, currency="USD"),
        UsageReported("p", "m", Usage(10, 0, 130, 8), expected=135),
    )
    bounds = Budgets(turn=Budget(steps=25), run=Budget(tokens=1000, cost=2.0))
    runtime = Runtime(binding=None, context_tokens=8000, budgets=bounds)
    run = Ledger("run", bounds.run, lambda: 0.0, spent=spent_of(spent))
    ledger = turn_ledger(bounds, lambda: 0.0, run)
    assert figures_of(spent, runtime, ledger) == Figures(
        turn=1,
        messages=0,
        calls=3,
        usage=Usage(120, 20, 250, 20),
        expected=260,
        filled=148,
        window=8000,
        cost=0.75,
        currency="USD",
        unpriced=1,
        left={"turn.steps": 25, "run.tokens": 590, "run.cost": 1.25},
    )


class Asking(Player):
    """A model that asks for the status in its first reply, with usage of its own for each call."""

    async def stream(self, request):
        async for event in super().stream(request):
            if isinstance(event, Finished):
                used = Usage(uncached=100, read=900, output=10)
                yield msgspec.structs.replace(event, usage=used)
            else:
                yield event


ASK = Message("assistant", (ToolCall("c1", "session_status", "{}"),))


@pytest.fixture
def ask(make_workspace):
    """Run turns in one session and return what `session_status` answered in the last one."""

    def asked(turns=1, settings="", of_the_machine=""):
        ws = make_workspace(
            {
                ".halo/agents/a/agent.yaml": agent()
                + "budgets:\n  turn: {steps: 9}\n  run: {tokens: 10000}\n",
                ".halo/agents/a/AGENT.md": "You are a.\n",
                **({".halo/settings.yaml": settings} if settings else {}),
                **({"secrets:settings.yaml": of_the_machine} if of_the_machine else {}),
            }
        ).without_templates()
        sessions = str(ws.halo / "sessions")
        seconds = iter(range(10_000))
        desk = Desk(
            ws.builder,
            {},
            str(ws.home / "cache"),
            lambda: 1_790_000_000_000_000_000 + next(seconds) * 10**9,
        )
        for _ in range(turns):
            player = Asking(ASK, says("Thanks."))
            desk.adapter = lambda _artifact, _agent, player=player: player
            choice = choose(sessions, "a", "cli", home=sessions, named=None, new=False)
            run_talk(desk, choice, "How far are we?", lambda _: None, frozen=False)
        (result,) = player.requests[-1].history[-1].content
        assert isinstance(result, ToolResult)
        assert not result.is_error
        return dict(text.split(": ", 1) for text in result.text.split("\n"))

    return asked


def test_the_call_that_asks_counts(ask):
    """Its tokens are spent, and the budgets of turn and session are less by it."""
    said = ask()
    assert said["session"] == "turn 1, 2 messages, 1 model call"
    assert said["tokens sent"].startswith("1,000 (100 uncached, ")
    assert said["tokens produced"] == "10"
    assert said["window"].startswith("1,010 of ")
    assert said["left"] == "turn.steps 8, run.tokens 8,990"


def test_earlier_turns_count_for_the_session_and_not_for_the_turn(ask):
    said = ask(turns=3)
    assert said["session"] == "turn 3, 10 messages, 5 model calls"
    assert said["tokens sent"].startswith("5,000 ")
    assert said["window"].startswith("1,010 of ")
    assert said["left"] == "turn.steps 8, run.tokens 4,950"


def test_the_time_is_that_of_the_call_not_of_the_turn(ask):
    first = ask()["time"]
    assert first.endswith(" UTC") or "not known" in first
    assert "2026-09-21" in first


ZONE = "general:\n  prompt:\n    time_zone: {}\n"


def test_the_zone_of_the_workspace_is_used(ask):
    assert " Asia/Tokyo; " in ask(settings=ZONE.format("Asia/Tokyo"))["time"]


def test_the_zone_that_the_user_has_set_goes_before_it(ask):
    said = ask(settings=ZONE.format("Asia/Tokyo"), of_the_machine=ZONE.format("America/Lima"))
    assert " America/Lima; " in said["time"]


def test_without_a_setting_it_is_the_zone_of_the_machine(ask, monkeypatch):
    import tzlocal

    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Africa/Nairobi")
        tzlocal.reload_localzone()
        assert " Africa/Nairobi; " in ask()["time"]
    tzlocal.reload_localzone()
