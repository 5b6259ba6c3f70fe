"""Pauses between the parts of an answer, and answers that say that there is none."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.sessions.delivery.pacing import Pace, pause
from halo.sessions.delivery.silence import is_silent, may_become_silent


class TestPauses:
    def test_none_unless_asked_for(self):
        assert pause(Pace(), "block", 3, random.randint) == 0

    @given(st.integers())
    def test_natural_is_between_0_8_and_2_5_seconds(self, seed):
        assert 0.8 <= pause(Pace("natural"), "block", 1, random.Random(seed).randint) <= 2.5

    def test_custom_is_what_was_asked_for(self):
        asked = []
        assert pause(Pace("custom", 10, 30), "block", 1, lambda *bounds: asked.append(bounds) or 20) == 0.02
        assert asked == [(10, 30)]
        assert pause(Pace("custom", 40, 30), "block", 1, random.randint) == 0.04

    def test_only_before_parts_and_not_before_the_first(self):
        assert pause(Pace("natural"), "block", 0, random.randint) == 0
        assert pause(Pace("natural"), "final", 2, random.randint) == 0
        assert pause(Pace("natural"), "other", 2, random.randint) == 0


class TestSilence:
    @pytest.mark.parametrize("text", ["NO_REPLY", " no_reply\n", "REPLY_SKIP", "\nANNOUNCE_SKIP "])
    def test_the_whole_answer_and_nothing_else(self, text):
        assert is_silent(text)

    @pytest.mark.parametrize(
        "text", ["", "NO_REPLY.", "Say NO_REPLY", "reply_skip", "Announce_Skip", "NO REPLY"]
    )
    def test_all_else_is_an_answer(self, text):
        assert not is_silent(text)

    @pytest.mark.parametrize("word", ["NO_REPLY", "no_reply", "REPLY_SKIP", "ANNOUNCE_SKIP"])
    def test_what_may_become_silence_is_held_back_from_its_first_letter(self, word):
        assert all(may_become_silent(word[:n]) for n in range(len(word) + 1))
        assert may_become_silent(f"{word} \n")

    @pytest.mark.parametrize("text", ["Not", "NO \n", "NO_REPLY to that", "NO_REPLY.", "reply_s", "Hello"])
    def test_what_cannot_is_not(self, text):
        assert not may_become_silent(text)

    @given(st.text("NO_REPLYnorep \n", max_size=12))
    def test_nothing_silent_was_ever_shown_in_part(self, text):
        if is_silent(text):
            assert all(may_become_silent(text[:n]) for n in range(len(text) + 1))
