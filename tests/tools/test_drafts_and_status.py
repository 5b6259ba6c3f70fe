"""Drafts are reviewed three times a turn; the status is the session's."""

import asyncio
import json

import pytest

from halo.records.messages import ToolCall


def test_the_first_three_drafts_get_a_checklist_that_counts_down(bench):
    said = [bench.text("draft", content="My answer.") for _ in range(3)]
    assert all("1. Question" in text and "6. Reader" in text for text in said)
    assert "2 more can be reviewed" in said[0]
    assert "1 more can be reviewed" in said[1]
    assert "the last review" in said[2]


def test_from_the_fourth_on_it_is_enough(bench):
    for _ in range(3):
        bench.text("draft", content="My answer.")
    for number in (4, 5):
        text = bench.text("draft", content="My answer.")
        assert f"draft {number}" in text
        assert text.endswith("write your answer now.")
        assert "1. Question" not in text


def test_each_turn_counts_its_own(bench):
    for _ in range(4):
        bench.text("draft", content="My answer.")
    bench.restrict("full")  # another toolbox
    assert "2 more can be reviewed" in bench.text("draft", content="My answer.")


@pytest.mark.parametrize("content", ["", " \n\t"])
def test_an_empty_draft_is_refused_and_not_counted(bench, content):
    for _ in range(5):
        assert "empty" in bench.refusal("draft", content=content)
    assert "2 more" in bench.text("draft", content="My answer.")


def test_drafts_of_one_reply_count_as_several(bench):
    """They run side by side."""
    calls = [ToolCall(f"c{n}", "draft", json.dumps({"content": "x"})) for n in range(5)]

    async def go():
        return [result.text async for _, result, _ in bench.toolbox.run_batch(calls)]

    said = asyncio.run(go())
    assert sum("1. Question" in text for text in said) == 3
    assert sum("write your answer now" in text for text in said) == 2


def test_the_status_is_asked_for_when_it_is_wanted(bench):
    turns = iter(["turn 1", "turn 2"])
    bench.around = bench.around._replace(status=lambda: next(turns))
    bench.restrict("full")  # another toolbox
    assert bench.text("session_status") == "turn 1"
    assert bench.text("session_status") == "turn 2"
    assert "internal error" in bench.refusal("session_status")
