"""Compaction around turns: when, in which order, what is recorded, what a failure leaves behind."""

import asyncio

import msgspec
import pytest
from histories import fit
from long_talk import NOTES, SUMMARY, TURN, LongOffice, Speaker, call, files, weigh

from halo.errors import BusyError, ProviderError
from halo.records.events import ContextShortened, MessageAdded, TurnEnded, UsageReported
from halo.records.session_events import CompactionFailed, MemoryFlushed
from halo.records.stops import FORMAT as STOP_FORMAT
from halo.records.stops import Stop
from halo.sessions.inbox.control import request_stop
from halo.sessions.long.compacting import compact
from halo.sessions.talk import talk


@pytest.fixture
def office(make_workspace):
    return LongOffice(make_workspace({**files(), "big.txt": "a line of a file\n" * 150}).without_templates())


def compacted(office, speaker, instructions=""):
    office.desk.adapter = lambda _artifact, _target: speaker
    with office.folder.open(office.desk.now_ns) as session:
        return asyncio.run(compact(office.desk, session, instructions, office.shown.append))


# After a turn.


def test_a_full_window_is_compacted_when_the_turn_is_over_and_the_next_one_starts_small(office):
    speaker = Speaker(4_500, 4_500, 2_500, "And on.")
    office.say(speaker, "One.")
    assert speaker.asked == [TURN]
    office.say(speaker, "Two.")
    office.say(speaker, "Three.")
    assert speaker.asked == [TURN, TURN, TURN, NOTES, SUMMARY]
    (shortened,) = office.data(ContextShortened)
    assert (shortened.strategy, shortened.reason) == ("summarise", "turn")
    kinds = [e.type for e, _ in office.recorded()]
    assert kinds[kinds.index("turn.ended", kinds.index("memory.flushed") - 3) :][:5] == [
        "turn.ended", "usage", "memory.flushed", "usage", "context.shortened",
    ]  # fmt: skip
    office.say(speaker, "Four.")
    assert weigh(speaker.requests[-1]) < weigh(speaker.requests[2])
    assert "They spoke of the harbour." in speaker.requests[-1].history[0].text
    assert speaker.requests[-1].history[-1].text == "Four."


def test_it_is_asked_beside_the_conversation_with_the_same_prefix_and_without_tools(office):
    speaker = Speaker(5_000, 6_000)
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    turn, *beside = speaker.requests[-3:]
    assert [request.tool_choice for request in beside] == ["none", "none"]
    assert all(request.prefix == turn.prefix for request in beside)
    assert all(request.history[: len(turn.history)] == turn.history for request in beside)


def test_what_is_asked_beside_is_in_no_history_no_title_and_no_transcript(office):
    """Complaint 45: internal turns are never delivered."""
    speaker = Speaker(5_000, 6_000, "Yes.", notes="- the harbour master is Mira")
    shown = []
    for text in ("One.", "Two.", "Three."):
        office.say(speaker, text)
        shown += [event for event in office.shown if isinstance(event, MessageAdded)]
    assert NOTES in speaker.asked
    said = msgspec.json.encode([m for d in office.data(MessageAdded) for m in d.message.content]).decode()
    for words in ("about to be shortened", "The conversation has become long", "harbour master"):
        assert words not in said
        assert (
            words
            not in (office.ws.halo / "sessions")
            .joinpath(office.folder.id[:4] + "-" + office.folder.id[4:6], office.folder.id, "transcript.md")
            .read_text()
        )
        assert all(words not in str(event) for event in shown)
    assert office.folder.read().opening == "One."


def test_figures_of_calls_beside_a_turn_are_not_those_of_the_conversation(office):
    speaker = Speaker(5_000, 6_000, summary=ProviderError("down"), notes="- one")
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    conversation = office.folder.read()
    last = office.data(UsageReported)[1]
    assert len(office.data(UsageReported)) == 3  # two turns, and the notes
    assert conversation.last_call.reported == last
    assert conversation.record(conversation.started.artifact).counted == last.usage.prompt + last.usage.output


def test_the_room_that_is_to_be_free_after_a_turn_is_the_agents_to_say(make_workspace):
    """`context.reserve_tokens`: the limit before a call stays as it is."""
    asked = []
    for fields in ({}, {"reserve_tokens": 2_500}):
        office = LongOffice(make_workspace(files(**fields)).without_templates())
        speaker = Speaker(5_000, "Yes.")
        office.say(speaker, "One.")
        office.say(speaker, "Two.")
        asked.append(speaker.asked)
        for path in sorted((office.ws.halo / "sessions").rglob("events.jsonl")):
            path.unlink()
    assert asked == [[TURN, TURN], [TURN, TURN, NOTES, SUMMARY]]


def test_a_turn_that_was_broken_off_is_not_followed_by_a_compaction(office):
    speaker = Speaker(5_000, 6_000, ProviderError("down"))
    office.say(speaker, "One.")
    speaker.beside[SUMMARY] = ProviderError("down")
    office.say(speaker, "Two.")
    before = len(speaker.asked)
    with pytest.raises(ProviderError):
        office.say(speaker, "Three.")
    assert speaker.asked[before:] == [SUMMARY, TURN]  # before the call of the turn; not after it
    assert office.data(TurnEnded)[-1].reason == "error"


# Failures.


def test_a_failed_compaction_changes_nothing_and_is_recorded_and_told(office):
    speaker = Speaker(5_000, 6_000, summary=ProviderError("the model is down"))
    office.say(speaker, "One.")
    before = office.history()
    office.say(speaker, "Two.")
    assert office.history()[: len(before)] == before
    assert office.data(ContextShortened) == []
    (failed,) = office.data(CompactionFailed)
    assert failed.reason == "turn"
    assert "the model is down" in failed.problem
    assert any("not summarised" in notice for notice in office.notices)


def test_what_failed_after_a_turn_is_tried_again_when_a_call_needs_it_or_the_history_has_grown(office):
    speaker = Speaker(5_000, 5_500, "Yes.", 2_500, summary=ProviderError("down"))
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    assert [d.reason for d in office.data(CompactionFailed)] == ["turn"]
    office.say(speaker, "Three.")
    assert [d.reason for d in office.data(CompactionFailed)] == ["turn", "fill"]
    speaker.beside[SUMMARY] = "They spoke."
    office.say(speaker, "Four.")
    assert [d.reason for d in office.data(ContextShortened)] == ["fill"]
    assert office.folder.read().standing.failed_at == 0


@pytest.mark.parametrize("where", ["flush", "summary"])
def test_a_cancelled_compaction_leaves_a_session_that_goes_on(office, where):
    speaker = Speaker(5_000, 6_000, "Yes.")
    speaker.beside[NOTES if where == "flush" else SUMMARY] = None

    async def go():
        office.desk.adapter = lambda _artifact, _target: speaker
        await talk(office.desk, office.choose(), "One.", office.shown.append, frozen=False)
        task = asyncio.ensure_future(
            talk(office.desk, office.choose(), "Two.", office.shown.append, frozen=False)
        )
        await speaker.until(NOTES if where == "flush" else SUMMARY)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    history = office.history()
    assert office.data(TurnEnded)[-1].reason == "done"
    assert office.data(ContextShortened) == []
    speaker.beside.update({NOTES: "NO_REPLY", SUMMARY: "They spoke."})
    office.say(speaker, "Three.")
    assert fit(office.history())
    assert history[0] not in office.history()[1:]


# By the user's wish.


def test_the_user_has_it_compacted_with_wishes(office):
    speaker = Speaker(2_000, "An answer.", "Yes.")
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    done = compacted(office, speaker, "keep the names of boats")
    assert done.problem == ""
    assert done.tokens_after < done.tokens_before
    assert speaker.of(SUMMARY)[0].history[-1].text.endswith("keep the names of boats")
    (shortened,) = office.data(ContextShortened)
    assert shortened.reason == "manual"
    history = office.history()
    assert fit(history)
    assert [m.text for m in history if m.role == "user"][-1] == "Two."
    assert "They spoke of the harbour." in history[0].text
    office.say(speaker, "Three.")
    assert speaker.requests[-1].history[:-1] == history


def test_it_is_refused_while_a_turn_runs(office):
    office.say(Speaker("An answer."))
    with office.folder.open(office.desk.now_ns), pytest.raises(BusyError):
        compacted(office, Speaker())
    assert office.data(ContextShortened) == []


def test_where_there_is_nothing_to_sum_up_nobody_is_asked(office):
    speaker = Speaker("An answer.")
    office.say(speaker)
    before = office.history()
    done = compacted(office, speaker)
    assert done.problem == "there is nothing that could be summed up"
    assert speaker.asked == [TURN]
    assert office.history() == before


def test_a_summary_that_is_longer_than_what_it_replaces_is_no_summary(office):
    speaker = Speaker("Yes.", "No.", summary="word " * 500)
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    before = office.history()
    done = compacted(office, speaker)
    assert "longer" in done.problem
    assert office.history() == before
    assert office.data(CompactionFailed)[0].reason == "manual"


# The order of things.


@pytest.mark.parametrize(
    ("fields", "replies", "shortened"),
    [
        ({}, (5_000, 6_000), ("summarise", "turn")),
        ({"strategies": ["truncate"]}, (5_000, 6_000), ("truncate", "turn")),
        ({"max_messages": 4}, ("One.", "Two.", "Three."), ("cap", "cap")),
        (
            {"strategies": ["truncate"]},
            (4_000, 4_000, ProviderError("too long", kind="overflow"), "Yes."),
            ("truncate", "overflow"),
        ),
    ],
)
def test_notes_are_made_before_every_loss_and_once_for_each(make_workspace, fields, replies, shortened):
    """Complaint 42: reactive compaction ran without, or before, the flush: one ordered path."""
    office = LongOffice(make_workspace(files(**fields)).without_templates())
    speaker = Speaker(*replies, notes="- a note")
    for number in range(len([reply for reply in replies if not isinstance(reply, Exception)])):
        office.say(speaker, f"Turn {number}.")
    flushed, first, *more = office.data(MemoryFlushed, ContextShortened)
    assert flushed.lines == 1
    assert (first.strategy, first.reason) == shortened
    assert more == []
    assert len(speaker.of(NOTES)) == 1


def test_a_request_that_was_refused_as_too_long_is_not_sent_again_to_ask_for_notes(office):
    speaker = Speaker(*[2_000] * 4, ProviderError("too long", kind="overflow"), "Yes.", notes="- a note")
    for number in range(5):
        office.say(speaker, f"Turn {number}.")
    assert len(speaker.of(NOTES)) == 1
    refused, asked = speaker.of(TURN)[4], speaker.of(NOTES)[0]
    assert len(asked.history) < len(refused.history) - 2


def test_the_estimate_counts_what_is_to_come_and_what_tools_returned(office):
    """Complaint 41: the flush was skipped because the count was the previous turn's."""
    speaker = Speaker(5_000, call("c1", "file_read", path="big.txt"), "Read.")
    office.say(speaker, "One.")
    assert speaker.asked == [TURN]
    office.say(speaker, "word " * 900)  # 1,250 tokens more than the provider has counted
    assert NOTES in speaker.asked
    first = speaker.asked.index(NOTES)
    assert speaker.requests[first].history[-1].text.startswith("This conversation is about")
    assert weigh(speaker.of(TURN)[-1]) <= 3_200 + 1_000


# What ends it.


def test_a_wish_to_stop_breaks_it_off(office):
    speaker = Speaker(5_000, 6_000, summary="They spoke.")
    speaker.beside[SUMMARY] = None
    office.say(speaker, "One.")

    async def go():
        task = asyncio.ensure_future(
            talk(office.desk, office.choose(), "Two.", office.shown.append, frozen=False)
        )
        await speaker.until(SUMMARY)
        request_stop(office.folder.path, Stop(STOP_FORMAT, "", "the user"))
        return await asyncio.wait_for(task, 5)

    reply = asyncio.run(go())
    assert reply.reason == "done"
    assert office.data(ContextShortened) == []
    assert office.folder.read().standing.stopped


def test_budgets_count_it_and_end_it(make_workspace):
    office = LongOffice(make_workspace(files(budgets={"run": {"tokens": 5_000}})).without_templates())
    speaker = Speaker(5_000, 6_000)
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    # The turns alone used it up: nothing is asked beside them, and that is told.
    assert speaker.asked == [TURN, TURN]
    assert any("not compacted: budgets.run.tokens" in notice for notice in office.notices)
