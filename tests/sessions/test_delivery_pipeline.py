"""A turn's events become messages: in order, each part once, and nothing is lost without a word."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from halo.errors import DeliveryError
from halo.models.adapter import Retrying, TextDelta, ThinkingDelta
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded
from halo.records.messages import Message, Text, Thinking, ToolCall, ToolResult
from halo.records.outgoing import Address
from halo.sessions.delivery.channels import Retry
from halo.sessions.delivery.chunks import ChunkConfig
from halo.sessions.delivery.coalescer import CoalesceConfig
from halo.sessions.delivery.delivery import Delivery, deliver
from halo.sessions.delivery.pacing import Pace
from halo.sessions.delivery.payloads import Payload, reply_id
from halo.sessions.delivery.plan import Plan
from halo.sessions.delivery.sending import send, wait_before

SMALL = ChunkConfig(1, 40)
PLAIN = Plan(
    streaming="text_end",
    whole=ChunkConfig(1, 200),
    blocks=SMALL,
    coalesce=CoalesceConfig(1, 40, idle=0.0),
    pace=Pace(),
    drafts="off",
    draft_blocks=SMALL,
    seconds=5.0,
)
HERE = Address("test", to="room")
DONE = TurnEnded("done")


class Recording:
    """A channel that keeps what it gets; `faults` says what it does with the n-th attempt instead."""

    text_limit = 0
    drafts = True

    def __init__(self, *faults, retry=None):
        self.retry = retry or Retry(attempts=3, first=1.0)
        self.faults = list(faults)
        self.messages, self.shown, self.attempts = [], [], []

    async def send(self, message):
        self.attempts.append(message)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            await asyncio.sleep(fault)
        self.messages.append(message)
        return ""

    async def draft(self, message):
        if isinstance(self.faults and self.faults[0], ZeroDivisionError):
            raise self.faults[0]
        self.shown.append(message.text)

    async def close(self):
        pass

    @property
    def texts(self):
        return [message.text for message in self.messages]


class Slept:
    """A sleep that takes no time and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    async def __call__(self, seconds):
        self.asked.append(seconds)


def plan(**changes):
    return replace(PLAIN, **changes)


def answer(text, *calls):
    return MessageAdded(Message("assistant", (Text(text), *calls)))


def typed(text, size=4):
    """A message as a model writes it: its deltas, then the whole."""
    return [*(TextDelta(text[i : i + size]) for i in range(0, len(text), size)), answer(text)]


def run(events, channel=None, plan=PLAIN, **options):
    """Deliver events; return the channel and the results."""
    channel = channel or Recording()
    options.setdefault("sleep", Slept())

    async def main():
        async def coming():
            for event in events:
                await asyncio.sleep(0)
                yield event

        return await deliver(coming(), Delivery(channel, HERE, "r1", plan, **options))

    return channel, asyncio.run(main())


ANSWER = "The first paragraph is here.\n\nThe second one follows it.\n\n```py\nprint(1)\nprint(2)\n```\n\nAnd that is the end."


class TestParts:
    def test_go_out_while_the_answer_is_written(self):
        channel = Recording()

        async def main():
            async with Delivery(channel, HERE, "r1", PLAIN) as delivery:
                for event in typed(ANSWER)[:15]:
                    delivery.take(event)
                for _ in range(20):
                    await asyncio.sleep(0)
                early = list(channel.texts)
                for event in [*typed(ANSWER)[15:], DONE]:
                    delivery.take(event)
            return early

        assert asyncio.run(main()) == ["The first paragraph is here."]
        assert channel.texts[1] == "The second one follows it."

    def test_join_to_the_answer(self):
        """Complaint 6: separators vanished."""
        channel, _ = run([*typed(ANSWER), DONE])
        assert len(channel.messages) > 2
        shown = [
            m.text.removeprefix(m.opening).removesuffix(m.closing) + m.separator for m in channel.messages
        ]
        assert "".join(shown) == ANSWER

    def test_are_numbered_and_recorded(self):
        kept = []
        channel, results = run([*typed(ANSWER), DONE], record=kept.append)
        assert [m.part for m in channel.messages] == [1, 2, 3, 4]
        assert [m.id for m in channel.messages] == [f"r1.{n:05}" for n in (1, 2, 3, 4)]
        assert [(r.channel, r.id, r.part, r.state, r.attempts) for r in results] == [
            ("test", f"r1.{n:05}", n, "sent", 1) for n in (1, 2, 3, 4)
        ]
        assert tuple(kept) == results

    @settings(max_examples=40, deadline=None)
    @given(st.integers(1, 30), st.sampled_from(["text_end", "message_end"]))
    def test_whatever_the_deltas_the_answer_is_there_once(self, size, streaming):
        channel, _ = run([*typed(ANSWER, size), DONE], plan=plan(streaming=streaming))
        shown = [
            m.text.removeprefix(m.opening).removesuffix(m.closing) + m.separator for m in channel.messages
        ]
        assert "".join(shown) == ANSWER

    def test_at_the_end_of_the_message_if_so_wanted(self):
        events = [*typed(ANSWER)[:-1], ToolResultAdded(ToolResult("c", "x"), "t")]
        channel = Recording()

        async def main():
            async with Delivery(channel, HERE, "r1", plan(streaming="message_end")) as delivery:
                for event in events:
                    delivery.take(event)
                await asyncio.sleep(0.01)
                assert channel.texts == []
                delivery.take(answer(ANSWER))
                await asyncio.sleep(0.05)
                assert len(channel.texts) == 4

        asyncio.run(main())

    def test_off_sends_all_that_was_said_when_the_turn_is_over(self):
        call = ToolCall("c1", "grep", "{}")
        said = [*typed("Let me look.")[:-1], answer("Let me look.", call), *typed(ANSWER)]
        channel, _ = run([*said, DONE], plan=plan(streaming="off"))
        assert channel.texts == ["Let me look.", ANSWER]
        assert {m.kind for m in channel.messages} == {"final"}

    def test_two_like_paragraphs_both_arrive(self):
        """Complaint 8: a key for duplicates suppressed the second."""
        text = "Yes, this is it.\n\nYes, this is it."
        channel, _ = run(
            [*typed(text), DONE], plan=plan(blocks=ChunkConfig(1, 20), coalesce=CoalesceConfig(1, 20))
        )
        assert channel.texts == ["Yes, this is it."] * 2

    def test_two_like_messages_of_a_turn_both_arrive(self):
        channel, _ = run([*typed("Working."), *typed("Working."), DONE])
        assert channel.texts == ["Working.", "Working."]

    def test_parts_of_two_messages_are_not_merged(self):
        merging = CoalesceConfig(1000, 4000, idle=60)
        channel, _ = run([*typed("One."), *typed("Two."), DONE], plan=plan(coalesce=merging))
        assert channel.texts == ["One.", "Two."]

    def test_what_is_put_by_others_stands_in_its_place(self):
        channel = Recording()

        async def main():
            async with Delivery(channel, HERE, "r1", PLAIN) as delivery:
                for event in typed("Before."):
                    delivery.take(event)
                delivery.put(Payload(media=("a.png",), kind="other"))
                for event in typed("After."):
                    delivery.take(event)

        asyncio.run(main())
        assert [m.text or m.media for m in channel.messages] == ["Before.", ("a.png",), "After."]

    def test_what_it_replies_to_is_on_every_part(self):
        channel, _ = run([*typed(ANSWER), DONE], reply_to="m7")
        assert {m.reply_to for m in channel.messages} == {"m7"}
        assert {m.address for m in channel.messages} == {HERE}


class TestOnce:
    def test_the_final_text_is_not_sent_again(self):
        """Complaint 7: chunks were not the final text, so all of it came a second time."""
        final = ANSWER.replace("\n\n", "\n \n") + "\n"
        channel, _ = run([*typed(ANSWER)[:-1], answer(final), DONE])
        assert "".join("".join(channel.texts).split()).count("Thefirstparagraph") == 1
        assert channel.texts[-1].endswith("that is the end.")

    def test_a_final_text_that_goes_on_sends_the_rest_alone(self):
        channel, _ = run([*typed(ANSWER)[:-1], answer(ANSWER + "\n\nAnd a word more."), DONE])
        assert channel.texts[0] == "The first paragraph is here."
        assert "".join(channel.texts).count("The first") == 1
        assert channel.texts[-1].endswith("And a word more.")

    def test_a_model_that_does_not_stream_is_delivered_from_its_message(self):
        channel, _ = run([answer(ANSWER), DONE])
        assert channel.texts[0] == "The first paragraph is here."

    def test_an_attempt_that_is_made_again_does_not_repeat_what_was_sent(self):
        half = typed(ANSWER)[:20]
        channel, _ = run([*half, Retrying("lost", 0.0, 1), *typed(ANSWER, 7), DONE])
        assert channel.texts == run([*typed(ANSWER), DONE])[0].texts

    def test_one_that_says_something_else_is_delivered_from_where_it_differs(self):
        other = ANSWER.replace("second", "other")
        half = typed(ANSWER)[:20]
        channel, _ = run([*half, Retrying("lost", 0.0, 1), *typed(other), DONE])
        assert channel.texts[:2] == ["The first paragraph is here.", "The other one follows it."]

    def test_thoughts_and_calls_are_no_part_of_it(self):
        """Complaint 4: thoughts have a type of their own and never get into the text."""
        message = Message("assistant", (Thinking("secret"), Text("Said."), ToolCall("c", "t", "{}")))
        events = [ThinkingDelta("secret"), *typed("Said.")[:-1], MessageAdded(message), DONE]
        assert run(events)[0].texts == ["Said."]

    def test_what_broke_off_was_said_and_is_sent(self):
        channel, _ = run(typed("It began well, and th")[:-1])
        assert channel.texts == ["It began well, and th"]


class TestSilence:
    @pytest.mark.parametrize("streaming", ["off", "text_end", "message_end"])
    @pytest.mark.parametrize("word", ["NO_REPLY", "no_reply\n", "ANNOUNCE_SKIP"])
    def test_no_part_of_the_token_is_ever_sent(self, word, streaming):
        channel, results = run(
            [*typed(word, 1), DONE], plan=plan(streaming=streaming, blocks=ChunkConfig(1, 4))
        )
        assert (channel.attempts, results) == ([], ())

    def test_whoever_delivers_can_ask_whether_there_was_none(self):
        async def main(text):
            async with Delivery(Recording(), HERE, "r1", PLAIN) as delivery:
                for event in typed(text):
                    delivery.take(event)
            return delivery.silent

        assert [asyncio.run(main(text)) for text in ("NO_REPLY", "Yes.")] == [True, False]

    def test_an_answer_that_begins_alike_is_an_answer(self):
        channel, _ = run([*typed("NO_REPLY was not what I meant.", 1), DONE])
        assert "".join(channel.texts) == "NO_REPLY was not what I meant."

    def test_silence_of_one_message_does_not_silence_another(self):
        channel, _ = run([*typed("Look."), *typed("NO_REPLY"), DONE], plan=plan(streaming="off"))
        assert channel.texts == ["Look."]

    def test_an_internal_turn_is_never_delivered(self):
        """Complaint 45: the prompt of a memory flush was shown to the user."""
        events = [MessageAdded(Message("user", (Text("Write down what matters."),))), *typed(ANSWER), DONE]
        for streaming in ("off", "text_end", "message_end"):
            channel, results = run(events, plan=plan(streaming=streaming, drafts="partial"), internal=True)
            assert (channel.attempts, channel.shown, results) == ([], [], ())

    def test_nor_is_an_internal_message_of_any_turn(self):
        inside = MessageAdded(Message("assistant", (Text("notes"),)), internal=True)
        assert run([inside, *typed("Said."), DONE])[0].texts == ["Said."]
        asked = MessageAdded(Message("user", (Text("Summarise."),)), internal=True)
        assert run([asked, *typed("Said."), DONE])[0].texts == ["Said."]


PASSES = DeliveryError("busy", passes=True)


class TestFaults:
    def test_what_passes_is_tried_again_with_growing_pauses(self):
        slept = Slept()
        channel, results = run([*typed("Hello."), DONE], Recording(PASSES, PASSES), sleep=slept)
        assert channel.texts == ["Hello."]
        assert slept.asked == [1.0, 2.0]
        assert [(r.state, r.attempts) for r in results] == [("sent", 3)]
        assert len({m.id for m in channel.attempts}) == 1

    def test_the_other_side_may_ask_for_a_longer_pause(self):
        slept = Slept()
        run([*typed("Hello."), DONE], Recording(DeliveryError("", passes=True, retry_after=7)), sleep=slept)
        assert slept.asked == [7]

    def test_order_is_kept_while_one_part_is_tried_again(self):
        channel, _ = run([*typed(ANSWER), DONE], Recording(None, PASSES, PASSES))
        assert [m.part for m in channel.messages] == [1, 2, 3, 4]

    def test_a_slow_attempt_is_broken_off_and_made_again(self):
        channel, results = run([*typed("Hello."), DONE], Recording(30), plan=plan(seconds=0.02))
        assert channel.texts == ["Hello."]
        assert results[0].attempts == 2

    @pytest.mark.parametrize("fault", [DeliveryError("no such room"), ValueError("a bug")])
    def test_what_fails_for_good_holds_up_the_rest_and_nothing_is_dropped(self, fault):
        channel = Recording(None, fault)

        async def main():
            delivery = Delivery(channel, HERE, "r1", PLAIN, sleep=Slept())
            async with delivery:
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)
            return delivery

        delivery = asyncio.run(main())
        assert [r.state for r in delivery.results] == ["sent", "failed", "unsent", "unsent"]
        assert str(fault) in delivery.results[1].error
        assert [m.part for m in delivery.unsent] == [2, 3, 4]
        assert [m.part for m in channel.messages] == [1]

    def test_what_was_not_sent_can_be_sent_later(self):
        channel, later = Recording(DeliveryError("down")), Recording()

        async def main():
            delivery = Delivery(channel, HERE, "r1", PLAIN, sleep=Slept())
            async with delivery:
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)
            return [await send(later, message, 5.0) for message in delivery.unsent]

        assert [r.state for r in asyncio.run(main())] == ["sent"] * 4
        assert later.texts == run([*typed(ANSWER), DONE])[0].texts

    def test_a_cancelled_delivery_says_what_is_left(self):
        channel = Recording(30)
        delivery = None

        async def main():
            nonlocal delivery
            delivery = Delivery(channel, HERE, "r1", PLAIN)
            async with delivery:
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)

        async def cancelled():
            task = asyncio.create_task(main())
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert [r.state for r in delivery.results] == ["broken_off"] * 4
        assert [m.part for m in delivery.unsent] == [1, 2, 3, 4]

    def test_every_part_is_told_before_it_is_sent_and_all_of_them_when_the_turn_is_over(self):
        channel, due = Recording(0.01, 0.01), []

        async def main():
            async with Delivery(channel, HERE, "r1", PLAIN, due=due.append, sleep=Slept()) as delivery:
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)
                    assert len(channel.attempts) <= len(due)
            return delivery

        asyncio.run(main())
        assert due == channel.messages

        async def broken_off(known):
            async with Delivery(Recording(30), HERE, "r1", PLAIN, due=known.append) as delivery:
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)

        known = []
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(broken_off(known), 0.05))
        assert known == due

    def test_the_turn_never_waits_for_the_channel(self):
        channel = Recording(0.2)

        async def main():
            loop = asyncio.get_running_loop()
            async with Delivery(channel, HERE, "r1", PLAIN) as delivery:
                began = loop.time()
                for event in [*typed(ANSWER), DONE]:
                    delivery.take(event)
                return loop.time() - began

        assert asyncio.run(main()) < 0.1
        assert len(channel.messages) == 4

    @pytest.mark.parametrize(
        ("attempt", "asked", "wait"),
        [(1, None, 0.5), (2, None, 1.0), (5, None, 4.0), (6, None, None), (1, 9, 9), (1, 301, None)],
    )
    def test_how_long_is_waited(self, attempt, asked, wait):
        assert wait_before(Retry(attempts=6, longest=4.0), attempt, asked) == wait


class TestPace:
    def test_pauses_stand_between_parts_alone(self):
        slept = Slept()
        paced = plan(pace=Pace("custom", 300, 300))
        run([*typed(ANSWER), DONE], plan=paced, sleep=slept)
        assert slept.asked == [0.3] * 3
        run([*typed(ANSWER), DONE], plan=plan(pace=paced.pace, streaming="off"), sleep=slept)
        assert slept.asked == [0.3] * 3

    def test_an_idle_gap_sends_what_waits(self):
        channel = Recording()
        merging = plan(
            coalesce=CoalesceConfig(5, 400, idle=0.02), blocks=ChunkConfig(1, 400, by_paragraph=True)
        )

        async def main():
            async with Delivery(channel, HERE, "r1", merging) as delivery:
                delivery.take(TextDelta("First paragraph.\n\nSecond"))
                await asyncio.sleep(0.1)
                assert channel.texts == ["First paragraph."]
                delivery.take(answer("First paragraph.\n\nSecond"))
            assert channel.texts == ["First paragraph.", "Second"]

        asyncio.run(main())


class TestDrafts:
    def drafts(self, mode, events, *faults, pause=0.0):
        channel = Recording(*faults)

        async def main():
            drafted = plan(streaming="off", drafts=mode, draft_blocks=ChunkConfig(5, 30))
            clock = iter(range(10_000))  # no two drafts come too early
            delivery = Delivery(channel, HERE, "r1", drafted, clock=lambda: float(next(clock)))
            async with delivery:
                for event in events:
                    delivery.take(event)
                    for _ in range(6):
                        await asyncio.sleep(0)
            return delivery.results

        return channel, asyncio.run(main())

    def test_partial_shows_the_latest_text_and_the_answer_comes_once(self):
        channel, _ = self.drafts("partial", [*typed("One two three four.", 5), DONE])
        assert channel.shown[:2] == ["One t", "One two th"]
        assert channel.texts == ["One two three four."]

    def test_block_shows_whole_parts(self):
        text = "First sentence here. Second sentence there. Third one. Fourth one."
        channel, _ = self.drafts("block", [*typed(text, 5), DONE])
        assert 0 < len(channel.shown) < 5
        assert all(text.startswith(shown) and shown.endswith(".") for shown in channel.shown)
        assert channel.texts == [text]

    def test_a_draft_is_balanced_too(self):
        channel, _ = self.drafts("partial", [*typed("```py\nprint(1)\nprint(2)\n```", 9), DONE])
        assert channel.shown[1] == "```py\nprint(1)\npri\n```"

    def test_silence_is_not_drafted(self):
        channel, _ = self.drafts("partial", [*typed("NO_REPLY", 1), DONE])
        assert channel.shown == []

    def test_a_draft_that_fails_ends_the_drafts_and_not_the_answer(self):
        fault = ZeroDivisionError("x")
        channel, results = self.drafts("partial", typed("One two three.", 5), fault)
        channel.faults.clear()
        assert channel.shown == []
        assert [r.state for r in results][:1] == ["no_draft"]

    def test_drafts_do_not_come_too_often(self):
        channel = Recording()

        async def main():
            drafted = plan(streaming="off", drafts="partial")
            async with Delivery(channel, HERE, "r1", drafted, clock=lambda: 0.0) as delivery:
                for event in typed("One two three four.", 2):
                    delivery.take(event)
                    await asyncio.sleep(0)

        asyncio.run(main())
        assert len(channel.shown) == 1


def test_ids_of_replies_sort_by_time():
    first = reply_id("20261002t143012-7k3f9q", 2, "2026-10-02T14:30:12.005Z")
    assert first == "20261002t143012005z-20261002t143012-7k3f9q-000002"
    assert first < reply_id("20261002t143012-7k3f9q", 3, "2026-10-02T14:31:00.000Z")
