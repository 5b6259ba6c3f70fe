"""What survives a summary: identifiers, open tasks, the last request; checked, asked for again, kept."""

import asyncio
import time
from contextlib import aclosing

import pytest
from histories import fit, histories, says, skill, step
from hypothesis import given
from hypothesis import strategies as st
from playing import Player

from halo.models.adapter import Notice
from halo.models.prefix import Prefix
from halo.records.artifacts import Binding, Runtime
from halo.records.events import ContextShortened, UsageReported
from halo.records.messages import user
from halo.runner.context.context import Context
from halo.runner.context.notes import is_note
from halo.runner.context.summarise import plan_all
from halo.runner.context.surviving import appendix, missing_from
from halo.runner.context.units import View, asks
from halo.runner.record import History

UUID = "123e4567-e89b-42d3-a456-426614174000"


# What is missing.


@pytest.mark.parametrize(
    "identifier",
    [
        UUID,
        "d8c087a",
        "79fbb187a8d0c3f2",
        "https://example.org/a/b?c=1",
        "/var/lib/harbour/tides.db",
        "halo/runner/turn.py",
        "src/a/b",
        "~/.config/halo",
        r"C:\Users\mira\tides.txt",
        "OPS-1742",
        "#4711",
        "v2.13.1",
        "192.168.7.10",
        "2026-10-02",
    ],
)
def test_an_identifier_is_missed_and_found(identifier):
    said = (user(f"Look at {identifier}, please."),)
    assert missing_from("They looked at something.", said) == (identifier,)
    assert missing_from(f"They looked at `{identifier}`.", said) == ()
    assert missing_from(f"They looked at {identifier}.", said) == ()
    assert missing_from(f"They looked at x{identifier}y.", said) == (identifier,)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("The port 8080 is taken.", ("port 8080",)),
        ("Set timeout=30 there.", ("timeout=30",)),
        ("Order 12,450 came in.", ("Order 12,450",)),
    ],
)
def test_a_number_is_missed_with_its_name(said, missing):
    assert missing_from("Something was set.", (user(said),)) == missing
    assert missing_from(said.lower().replace("=", " is "), (user(said),)) == ()


@pytest.mark.parametrize("said", ["It is 12:30, or e.g. 5 of them.", "Yes and/or no. Done.Then go on?", ""])
def test_prose_names_nothing(said):
    assert missing_from("", (user(said), says(said))) == ()


def test_a_task_is_missed_while_it_is_open():
    list_one = says("Plan:\n- [ ] paint the harbour wall\n- [ ] count the boats\n")
    ticked = says("- [x] Paint the harbour wall\n")
    assert missing_from("Nothing.", (list_one,)) == ("[ ] paint the harbour wall", "[ ] count the boats")
    assert missing_from("Nothing.", (list_one, ticked)) == ("[ ] count the boats",)
    assert missing_from("Still to do: to count all the boats.", (list_one, ticked)) == ()


def test_what_tools_return_and_skills_say_is_no_memory():
    listing = step(a="\n".join(f"/srv/files/{n}.txt" for n in range(500)))
    invoked = user('<skill id="x" note="y">\nRead /skill/file.md first.\n</skill>')
    assert missing_from("", (*listing, *skill("s", "See /skill/other.md."), invoked)) == ()


def test_of_a_great_many_the_newest_are_missed():
    said = tuple(says(f"wrote /srv/out/{n}.txt") for n in range(250))
    missing = missing_from("", said)
    assert len(missing) == 100
    assert missing[-1] == "/srv/out/249.txt"


@given(
    st.lists(st.sampled_from([UUID, "/a/b.txt", "#12", "text ", "- [ ] go home\n", "port 8080 "]), max_size=9)
)
def test_nothing_is_missing_where_the_appendix_stands(pieces):
    said = (user(" ".join(pieces)),)
    missing = missing_from("short", said)
    assert missing_from(f"short\n\n{appendix(missing, 10_000)}", said) == ()


@given(st.lists(st.text("abc/é", min_size=1, max_size=40), max_size=30), st.integers(0, 300))
def test_an_appendix_keeps_to_its_room_and_says_what_it_left_out(lines, most):
    _, *made = appendix(lines, most).splitlines()
    kept = [line.removeprefix("- ") for line in made if line.startswith("- ")]
    assert kept == lines[len(lines) - len(kept) :]  # the newest
    assert made[len(kept) :] == ([f"(and {len(lines) - len(kept)} more)"] if len(kept) < len(lines) else [])
    assert sum(len(f"- {line}\n".encode()) for line in kept) / 3.6 <= most


@pytest.mark.parametrize(
    "bad", ["+", "a/", "a.", "0a", "/", "1.", "a-", "https://", "~", ". ", "A1-", "- [ ] "]
)
def test_hostile_text_is_read_in_time_that_grows_with_it(bad):
    text = bad * (200_000 // len(bad))
    began = time.perf_counter()
    missing_from("", (user(text),))
    assert time.perf_counter() - began < 5


# Asked for again, and kept.


def context(*replies, strategies=("summarise",), window=6_000):
    runtime = Runtime(Binding("openai", "m", max_tokens=500), context_tokens=window, strategies=strategies)
    player = Player(*replies)
    return Context(runtime, Prefix("You help.", "You help."), player, patience=5.0), player


def run(events):
    async def go():
        async with aclosing(events) as found:
            return [event async for event in found]

    return asyncio.run(go())


def long_talk():
    told = [user(f"Case {UUID} lies in /srv/cases/seven.md."), says("- [ ] close the case\n")]
    for number in range(30):
        told += [user(f"and {number}? ".ljust(300, "x")), says("well ".ljust(300, "y"))]
    return (*told, user("What now?"))


def test_a_summary_that_has_it_all_is_asked_for_once():
    made, player = context(says(f"{UUID} is in /srv/cases/seven.md; still to close the case."))
    history = History(long_talk())
    run(made.shorten(history, "fill"))
    assert len(player.requests) == 1
    assert "Kept word for word" not in history.messages[0].text


def test_a_summary_that_lacks_something_is_asked_for_once_more_by_name():
    made, player = context(says("Cases."), says(f"{UUID} in /srv/cases/seven.md: close the case."))
    history = History(long_talk())
    events = run(made.shorten(history, "fill"))
    first, second = player.requests
    assert second.history[: len(first.history)] == first.history  # the cache is read again
    assert second.history[-2] == says("Cases.")
    for named in (UUID, "/srv/cases/seven.md", "[ ] close the case"):
        assert f"- {named}" in second.history[-1].text
    assert second.tool_choice == "none"
    assert len([e for e in events if isinstance(e, UsageReported)]) == 2
    assert "Cases." not in history.messages[0].text
    assert "Kept word for word" not in history.messages[0].text


def test_what_it_lacks_then_is_kept_word_for_word():
    made, _ = context(says("Cases."), says(f"Case {UUID}."))
    history = History(long_talk())
    run(made.shorten(history, "fill"))
    kept = history.messages[0].text
    assert kept.index(f"Case {UUID}.") < kept.index("[Kept word for word") < kept.index("/srv/cases/seven.md")
    assert missing_from(kept, long_talk()[:2]) == ()


def test_a_second_try_that_fails_costs_nothing_but_itself():
    made, _ = context(says("Cases."), says(""))
    history = History(long_talk())
    events = run(made.shorten(history, "fill"))
    assert any(isinstance(e, Notice) and "not completed" in e.text for e in events)
    assert any(isinstance(e, ContextShortened) for e in events)
    assert UUID in history.messages[0].text


def test_it_survives_summary_after_summary():
    made, _ = context(*(says("Nothing of note.") for _ in range(12)))
    history = History(long_talk())
    for _ in range(4):
        run(made.shorten(history, "fill"))
        assert UUID in history.messages[0].text
        history.extend(long_talk()[2:])


# The last request, and whole pairs.


@given(histories(least=1), st.integers(0, 4_000))
def test_the_last_request_and_whole_pairs_stay_when_the_user_wants_a_summary(messages, room):
    """Complaints 38 and 39: any cut keeps pairs whole."""
    requests = [m for m in messages if asks(m) and not is_note(m)]
    planned = plan_all(View.over(messages), room)
    made, _ = context(says("s"), says("s"))
    history = History(messages)
    run(made.compact(history, ""))
    assert fit(history.messages)
    assert requests[-1] in history.messages
    assert history.messages[-1] == messages[-1]
    if planned is None:
        assert history.messages == messages


@given(histories(least=2))
def test_texts_of_skills_stay_when_the_user_wants_a_summary(messages):
    loaded = skill("s0", "Always greet first. " * 5)
    whole = (*messages, user("load it"), *loaded, says("Done."), user("go on"), says("Yes."))
    made, _ = context(says("s"), says("s"), window=200_000)
    history = History(whole)
    run(made.compact(history, ""))
    assert loaded[1] in history.messages or history.messages == whole
