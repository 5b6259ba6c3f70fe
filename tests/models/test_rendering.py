"""Histories that grow are rendered once, and give the same as if they were rendered anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.models.rendering import Rendering
from halo.records.messages import Message, Text, user


def render(message):
    yield {"role": message.role, "content": [b.text for b in message.content]}


texts = st.text(alphabet="ab", min_size=1, max_size=3)
histories = st.lists(
    st.builds(lambda role, text: Message(role, (Text(text),)), st.sampled_from(["user", "assistant"]), texts),
    max_size=8,
)


@given(st.lists(histories, min_size=1, max_size=6))
def test_one_that_has_seen_others_gives_what_a_new_one_gives(several):
    kept = Rendering(render)
    for history in several:
        assert kept.of(tuple(history)) == Rendering(render).of(tuple(history))


@given(histories, st.data())
def test_growing_step_by_step_is_as_good_as_all_at_once(history, data):
    kept = Rendering(render)
    cuts = data.draw(st.lists(st.integers(0, len(history)), max_size=4).map(sorted))
    for cut in cuts:
        kept.of(tuple(history[:cut]))
    assert kept.of(tuple(history)) == Rendering(render).of(tuple(history))


def test_only_what_is_new_is_rendered():
    rendered = []

    def counting(message):
        rendered.append(message)
        return render(message)

    kept = Rendering(counting)
    history = tuple(Message(role, (Text(str(n)),)) for n in range(500) for role in ("user", "assistant"))
    first = kept.of((*history, user("now")))
    assert len(rendered) == 1001
    second = kept.of((*history, user("now"), Message("assistant", (Text("yes"),)), user("and now?")))
    assert len(rendered) == 1004
    assert all(a is b for a, b in zip(first.messages[:-1], second.messages, strict=False))


def test_messages_of_a_role_are_one():
    merged = Rendering(render).of((user("a"), user("b"), Message("assistant", (Text("c"),))))
    assert [m["content"] for m in merged.messages] == [["a", "b"], ["c"]]


def test_the_list_is_the_callers():
    kept = Rendering(render)
    kept.of((user("a"), Message("assistant", (Text("b"),)), user("c"))).messages.clear()
    assert len(kept.of((user("a"), Message("assistant", (Text("b"),)), user("c"))).messages) == 3


def test_the_digest_tells_requests_apart():
    made = Rendering(render).of((user("a"),))
    body = {"model": "m", "messages": made.messages}
    assert made.digest_with(body) == made.digest_with({"model": "m", "messages": []})
    assert made.digest_with(body) != made.digest_with({"model": "n"})
    assert made.digest != Rendering(render).of((user("b"),)).digest


def test_a_failure_in_the_middle_leaves_nothing_behind():
    broken = [True]

    def failing(message):
        if broken[0] and message.text == "c":
            raise KeyError(message.text)
        return render(message)

    history = tuple(Message("user" if n % 2 == 0 else "assistant", (Text(t),)) for n, t in enumerate("abcde"))
    kept = Rendering(failing)
    with pytest.raises(KeyError):
        kept.of(history)
    broken[0] = False
    assert kept.of(history) == Rendering(render).of(history)
