"""Parts that come close after one another become one message; what belongs to nobody else stays apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo.sessions.delivery.chunker import chunks_of
from halo.sessions.delivery.chunks import ChunkConfig
from halo.sessions.delivery.coalescer import JOINERS, CoalesceConfig, Coalescer
from halo.sessions.delivery.payloads import Payload

TEN = Payload("ten chars.")


def coalescer(**config):
    return Coalescer(CoalesceConfig(**{"min_chars": 15, "max_chars": 40, "idle": 1.0, **config}))


def run(steps, **config):
    """What is sent by the end, for payloads that come at given times."""
    merging, sent = coalescer(**config), []
    for payload, at in steps:
        sent += [*merging.tick(at), *merging.put(payload, at)]
    return [payload.text for payload in (*sent, *merging.flush())]


class TestTime:
    def test_what_comes_together_is_one_message(self):
        assert run([(TEN, 0.0), (TEN, 0.4)]) == ["ten chars.\n\nten chars."]

    def test_a_gap_sends_what_has_the_least_length(self):
        assert run([(TEN, 0.0), (TEN, 0.1), (TEN, 1.2)]) == ["ten chars.\n\nten chars.", "ten chars."]

    def test_each_part_begins_the_gap_anew(self):
        merging = coalescer(min_chars=5)
        merging.put(TEN, 10.0)
        assert merging.due == 11.0
        merging.put(TEN, 10.9)
        assert merging.due == 11.9
        assert merging.tick(11.8) == ()
        assert len(merging.tick(11.9)) == 1
        assert merging.due is None

    def test_less_than_the_least_length_waits_for_more_or_for_the_end(self):
        merging = coalescer()
        merging.put(TEN, 0.0)
        assert merging.due is None
        assert merging.tick(1e9) == ()
        assert merging.flush() == (TEN,)
        assert merging.flush() == ()


class TestSize:
    def test_nothing_merged_is_longer_than_the_limit(self):
        assert run([(TEN, 0), (TEN, 0), (TEN, 0), (TEN, 0)]) == [
            "ten chars.\n\nten chars.\n\nten chars.",
            "ten chars.",
        ]

    def test_just_the_limit_is_sent_at_once(self):
        merging = coalescer(max_chars=22)
        assert merging.put(TEN, 0) == ()
        assert [p.text for p in merging.put(TEN, 0)] == ["ten chars.\n\nten chars."]

    def test_a_part_that_is_longer_by_itself_goes_alone(self):
        merging = coalescer()
        merging.put(TEN, 0)
        long = Payload("x" * 41)
        assert merging.put(long, 0) == (TEN, long)

    def test_nor_has_it_more_lines(self):
        assert run([(TEN, 0), (TEN, 0), (TEN, 0)], max_lines=3) == ["ten chars.\n\nten chars.", "ten chars."]

    def test_no_limit(self):
        assert run([(TEN, 0)] * 9, max_chars=0) == ["\n\n".join(["ten chars."] * 9)]


class TestJoining:
    @pytest.mark.parametrize(
        ("preference", "joiner"), [("paragraph", "\n\n"), ("newline", "\n"), ("sentence", " ")]
    )
    def test_the_joiner_is_that_of_the_preference(self, preference, joiner):
        assert run([(TEN, 0), (TEN, 0)], joiner=JOINERS[preference]) == [f"ten chars.{joiner}ten chars."]

    def test_white_space_is_not_doubled(self):
        assert run([(Payload("one\n\n"), 0), (Payload("two"), 0)]) == ["one\n\ntwo"]

    def test_what_stood_between_two_parts_of_an_answer_stands_there_again(self):
        assert run([(Payload("one", separator="\n"), 0), (Payload("two", separator=""), 0)]) == ["one\ntwo"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.sampled_from(["a b. ", "\n", "\n\n", "```py\n", "code\n", "```\n", "- x\n"]), max_size=40)
    )
    def test_merged_parts_of_an_answer_are_the_answer(self, pieces):
        """The lines that closed and opened a block of code between them fall away."""
        text = "".join(pieces).strip()
        chunks = chunks_of(text, ChunkConfig(5, 40))
        sent = run([(Payload.of(c, "block"), 0) for c in chunks], max_chars=0)
        answer = "".join(c.source + c.separator for c in chunks[:-1])
        assert sent == [answer + c.source + c.closing for c in chunks[-1:]]


class TestWhatIsNotMerged:
    @pytest.mark.parametrize(
        "other",
        [
            Payload("other", reply_to="m2"),
            Payload("other", visibility="thinking"),
            Payload("other", visibility="notice"),
            Payload("other", kind="final"),
        ],
    )
    def test_parts_that_disagree(self, other):
        merging = coalescer()
        merging.put(Payload("first", reply_to="m1"), 0)
        assert [p.text for p in merging.put(other, 0)] == ["first"]
        assert merging.flush() == (other,)

    def test_where_to_it_replies_survives_the_merge(self):
        """Complaint 12: the rebuilt payload lost its routing."""
        merging = coalescer()
        first = Payload("one", reply_to="m1", visibility="notice")
        merging.put(first, 0)
        merging.put(Payload("two", reply_to="m1", visibility="notice"), 0)
        (sent,) = merging.flush()
        assert (sent.text, sent.reply_to, sent.visibility) == ("one\n\ntwo", "m1", "notice")

    @pytest.mark.parametrize(
        "other",
        [Payload(media=("a.png",)), Payload("caption", media=("a.png",)), Payload(data='{"buttons":[]}')],
    )
    def test_what_is_more_than_text_passes_behind_what_waits(self, other):
        """Complaint 13: a card without text was swallowed."""
        merging = coalescer()
        merging.put(TEN, 0)
        assert merging.put(other, 0) == (TEN, other)
        assert merging.put(other, 0) == (other,)

    def test_paragraphs_that_are_messages_stay_messages(self):
        """Complaint 9: chunk mode newline made three messages, the coalescer one of them."""
        chunks = chunks_of("One.\n\nTwo.\n\nThree.", ChunkConfig(1, 4000, by_paragraph=True))
        assert run([(Payload.of(c, "block", alone=True), 0) for c in chunks]) == ["One.", "Two.", "Three."]

    def test_nothing_is_ignored(self):
        assert coalescer().put(Payload(" \n"), 0) == ()

    def test_two_like_parts_are_two_parts(self):
        assert run([(TEN, 0), (TEN, 9), (TEN, 18)], min_chars=1) == ["ten chars."] * 3
