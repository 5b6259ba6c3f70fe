"""Strategies: calls and results are one unit, what is left out is said, what matters stays."""

import pytest
from histories import PICTURE, fit, histories, paired, says, skill, step, talk, view, weight
from hypothesis import given
from hypothesis import strategies as st

from halo.records.messages import Message, ToolCall, ToolResult, user
from halo.runner.context.cap import cap
from halo.runner.context.notes import LEFT_OUT, shortened, summary_message
from halo.runner.context.prune import prune
from halo.runner.context.summarise import answered, plan, shorter, with_summary
from halo.runner.context.truncate import truncate
from halo.runner.context.units import Unit, units
from halo.runner.record import applied, message_tokens

LONG = "line of a file\n" * 200


def after(strategy, messages, room):
    return applied(tuple(messages), strategy(view(messages), room))


# Units.


def test_a_call_and_its_results_are_one_unit():
    messages = (user("look"), *step(a="1", b="2"), says("done"), user("thanks"))
    assert units(messages) == (Unit(0, 1), Unit(1, 3), Unit(3, 4), Unit(4, 5))


def test_results_in_several_messages_belong_to_the_same_unit():
    called, results = step(a="1", b="2")
    apart = [Message("user", (block,)) for block in results.content]
    assert units((user("look"), called, *apart, says("done")))[1] == Unit(1, 4)


# Prune.


def steps(count, text=LONG, tool="file_read"):
    return [m for n in range(count) for m in step(tool=tool, **{f"c{n}": text})]


def test_old_results_become_a_note_that_says_which_tool_and_how_long():
    messages = (user("look"), *steps(8), says("done"))
    pruned = after(prune, messages, 0)
    assert pruned[2].content[0].text == (
        "[file_read: 3,000 characters left out to make room; call it again if they are needed]"
    )
    assert [m.calls for m in pruned] == [m.calls for m in messages]


def test_the_last_five_results_stay():
    messages = (user("look"), *steps(8), says("done"))
    whole = [
        b.call_id for m in after(prune, messages, 0) for b in m.content if getattr(b, "text", "") == LONG
    ]
    assert whole == ["c3", "c4", "c5", "c6", "c7"]


def test_of_many_results_of_one_message_the_last_five_stay():
    messages = (user("look"), *step(**{f"c{n}": LONG for n in range(9)}), says("done"))
    results = after(prune, messages, 0)[2].content
    assert [r.call_id for r in results if r.text == LONG] == ["c4", "c5", "c6", "c7", "c8"]


@pytest.mark.parametrize("tail", [(), (user("and?"),)])
def test_results_that_the_model_has_not_seen_stay_however_many(tail):
    unseen = step(**{f"n{n}": LONG for n in range(12)})
    messages = (user("look"), *steps(6), *unseen, *tail)
    pruned = after(prune, messages, 0)
    assert pruned[-2 - len(tail) :] == (*unseen, *tail)
    assert pruned != messages


def test_the_text_of_a_skill_is_never_pruned():
    messages = (user("go"), *skill("s", LONG), *steps(9), says("done"))
    assert after(prune, messages, 0)[:3] == messages[:3]


def test_beside_a_skill_other_results_of_the_message_are_pruned():
    called = Message("assistant", (ToolCall("s", "activate_skill", "{}"), ToolCall("g", "grep", "{}")))
    results = Message("user", (ToolResult("s", LONG), ToolResult("g", LONG)))
    pruned = after(prune, (user("go"), called, results, *steps(5), says("done")), 0)
    assert pruned[2].content[0].text == LONG
    assert pruned[2].content[1].text.startswith("[grep: 3,000 characters")


def test_pictures_go_too():
    picture = Message("user", (ToolResult("p", "shot.png, 800x600", images=(PICTURE,)),))
    messages = (user("see"), Message("assistant", (ToolCall("p", "view_image", "{}"),)), picture, *steps(5))
    result = after(prune, (*messages, says("done")), 0)[2].content[0]
    assert result.images == ()
    assert result.text == "shot.png, 800x600\n[view_image: 1 picture left out to make room]"


@given(st.text(max_size=600), st.text(max_size=400), st.booleans())
def test_a_note_is_never_longer_than_what_it_replaces(text, tool, seen):
    result = ToolResult("c", text, images=(PICTURE,) if seen else ())
    made = shortened(result, tool)
    assert message_tokens(Message("user", (made,))) <= message_tokens(Message("user", (result,)))
    assert shortened(made, tool) is made


def test_a_second_pruning_leaves_the_bytes_of_the_first():
    """Notes that were rewritten each time would lose the cache each time."""
    once = after(prune, (user("look"), *steps(12), says("done")), 0)
    later = (*once, user("more"), says("yes"))
    assert prune(view(later), 0) == ()


# Truncate.


def test_the_oldest_units_are_left_out_and_that_is_said():
    messages = talk(20)
    cut = after(truncate, messages, weight(messages) // 2)
    assert cut[0] == LEFT_OUT
    assert cut[1:] == messages[-len(cut) + 1 :]


def test_one_large_message_does_not_hide_the_older_ones():
    messages = (*talk(4), user("x" * 20_000), says("I see."), *talk(2))
    cut = after(truncate, messages, 2_000)
    assert cut == (*talk(4), LEFT_OUT, says("I see."), *talk(2))


def test_in_a_long_turn_the_task_stays_and_the_order_too():
    messages = (*talk(3), user("the task"), *steps(20, text="found " * 40))
    cut = after(truncate, messages, 700)
    kept = [m for m in cut if m != LEFT_OUT]
    assert user("the task") in kept
    assert kept == [m for m in messages if m in kept]
    assert cut[-2:] == messages[-2:]


def test_skills_are_left_out_last_not_first():
    messages = (user("go"), *skill("s"), *talk(30))
    cut = after(truncate, messages, weight(messages) // 4)
    assert all(m in cut for m in messages[1:3])


def test_a_skill_that_the_user_invoked_stays():
    invoked = user('<skill id="greet" note="Follow it.">\nAlways greet first.\n</skill>')
    messages = (invoked, says("Hello"), *talk(30))
    assert invoked in after(truncate, messages, weight(messages) // 4)


def test_skills_do_not_push_out_everything_else():
    messages = (*(m for n in range(9) for m in skill(f"s{n}", LONG)), *talk(4))
    messages = (user("go"), *messages)
    cut = after(truncate, messages, 3_000)
    assert all(m in cut for m in talk(4))
    assert skill("s8", LONG)[1] in cut
    assert skill("s0", LONG)[1] not in cut


def test_a_note_takes_up_an_earlier_one():
    messages = talk(40)
    once = after(truncate, messages, 2_000)
    twice = after(truncate, (*once, *talk(10)), 2_000)
    assert twice.count(LEFT_OUT) == 1


def test_what_is_asked_now_stays_whatever_it_weighs():
    messages = (*talk(4), user("y" * 50_000))
    assert after(truncate, messages, 100)[-1] == messages[-1]


# The cap.


def test_the_cap_goes_half_way_down_so_that_it_does_not_cost_the_cache_each_time():
    messages = talk(26)
    cut = after(cap, messages, 50)
    assert len(cut) == 25
    assert cut[0] == LEFT_OUT
    assert cap(view((*cut, *talk(12))), 50) == ()


def test_the_ring_buffer_leaves_no_orphans():
    messages = (user("go"), *steps(40, text="r"))
    for most in range(6, 60):
        cut = after(cap, messages, most)
        assert fit(cut)
        assert len(cut) <= most


# The summary.


def test_a_summary_takes_the_place_of_the_old_units():
    messages = talk(40)
    planned = plan(view(messages), 2_000)
    made = applied(messages, with_summary(planned, " All that was said. "))
    assert made[0] == summary_message("All that was said.")
    assert "summary of the earlier conversation" in made[0].text.lower()
    assert made[1:] == messages[-len(made) + 1 :]
    assert weight(made) <= 2_000


def test_what_is_not_answered_yet_is_neither_summarised_nor_asked():
    messages = (*talk(40), user("now this"), *step(n=LONG * 4))
    assert answered(view(messages)) == messages[:-2]
    made = applied(messages, with_summary(plan(view(messages), 2_000), "sum"))
    assert made[-3:] == messages[-3:]


def test_skills_stay_as_they_are_behind_a_summary():
    called = Message("assistant", (ToolCall("s", "activate_skill", "{}"), ToolCall("g", "grep", "{}")))
    results = Message("user", (ToolResult("s", LONG), ToolResult("g", LONG * 3)))
    messages = (user("go"), called, results, *talk(60))
    made = applied(messages, with_summary(plan(view(messages), 4_000), "sum"))
    assert made[:2] == (summary_message("sum"), called)
    assert made[2].content[0] == results.content[0]
    assert made[2].content[1].text.startswith("[grep: 9,000 characters")


def test_a_summary_takes_up_an_earlier_one():
    messages = (summary_message("first"), *talk(40))
    made = applied(messages, with_summary(plan(view(messages), 2_000), "second"))
    assert made[0] == summary_message("second")
    assert summary_message("first") not in made


def test_too_little_is_not_worth_a_call():
    assert plan(view((*talk(1), user("z" * 40_000))), 2_000) is None


def test_a_shorter_copy_is_asked_about_in_order():
    messages = (*talk(10), *(user("go"), *steps(30), says("done")), *talk(10))
    copied = shorter(answered(view(messages)), 2_500)
    assert weight(copied) <= 2_500
    assert paired(copied)
    assert copied[-1] == messages[-1]


# Any history, any strategy.


def summarised(planned_view, room):
    planned = plan(planned_view, room)
    return with_summary(planned, "s") if planned is not None else ()


STRATEGIES = {"prune": prune, "truncate": truncate, "summarise": summarised}


@pytest.mark.parametrize("name", STRATEGIES)
@given(histories(least=1), st.integers(0, 6000))
def test_any_history_stays_fit_and_grows_in_nothing(name, messages, room):
    made = after(STRATEGIES[name], messages, room)
    assert fit(made)
    assert weight(made) <= weight(messages) or name == "summarise"
    assert made[-1] == messages[-1]
    assert len(made) <= len(messages) + 1


@given(histories(least=1))
def test_pruning_again_changes_nothing(messages):
    once = after(prune, messages, 0)
    assert prune(view(once), 0) == ()


@given(histories(least=1), st.integers(0, 6000))
def test_truncating_again_changes_nothing_that_fits(messages, room):
    once = after(truncate, messages, room)
    twice = after(truncate, once, room)
    assert weight(twice) <= weight(once)
    assert twice == once or weight(once) > room


@given(histories(least=1), st.integers(2, 40))
def test_any_history_stays_fit_under_the_cap(messages, most):
    made = after(cap, messages, most)
    assert fit(made)
    assert len(made) <= max(most, 6)
    assert cap(view(made), max(most, 6)) == ()


@given(histories(least=1), st.integers(500, 6000))
def test_what_is_left_stands_in_its_old_order(messages, room):
    made = after(truncate, messages, room)
    places = {id(m): n for n, m in enumerate(messages)}
    known = [places[id(m)] for m in made if id(m) in places]
    assert known == sorted(known)


@given(histories(), st.data())
def test_a_history_that_begins_in_the_middle_is_given_a_beginning(messages, data):
    """A damaged log may have lost the first line."""
    start = data.draw(st.sampled_from([u.start for u in units(messages)] or [0]))
    rest = messages[start:]
    made = after(truncate, rest, 300)
    assert paired(made)
    assert made == rest or fit(made)
