"""Histories for tests of shortening: made by hand, or any that a turn can come to."""

from hypothesis import strategies as st

from halo.records.messages import Image, Message, Text, ToolCall, ToolResult, user
from halo.runner.context.units import View, asks

PICTURE = Image("image/png", "iVBORw0KGgo=")


def says(text):
    return Message("assistant", (Text(text),))


def step(*results, tool="grep", **texts):
    """A message with a call for each id in `texts`, and the message with their results."""
    called = Message("assistant", tuple(ToolCall(i, tool, "{}") for i in texts))
    return called, Message("user", tuple(ToolResult(i, text) for i, text in texts.items()))


def skill(identity, text="Always greet first."):
    return step(tool="activate_skill", **{identity: text})


def talk(turns, length=200):
    """Turns of a question and an answer of about `length` characters each."""
    made = []
    for number in range(turns):
        made += [user(f"question {number} ".ljust(length, "?")), says(f"answer {number} ".ljust(length, "."))]
    return tuple(made)


def paired(messages):
    """Every call has exactly one result, in the very next message, and no result is elsewhere."""
    wanted = []
    for message in messages:
        if [b.call_id for b in message.content if isinstance(b, ToolResult)] != wanted:
            return False
        wanted = [call.id for call in message.calls]
    return not wanted


def view(messages):
    return View.over(tuple(messages))


def weight(messages):
    return sum(view(messages).weights)


def fit(messages):
    """What every provider takes: it begins with a user's message that answers nothing, pairs are whole."""
    return paired(messages) and (not messages or asks(messages[0]))


TEXTS = st.integers(0, 3000).map(lambda n: "x" * n) | st.sampled_from(["", "hi", "ok"])


@st.composite
def histories(draw, least=0):
    """Any history that turns come to: whole turns, then one that goes on."""
    numbers = iter(range(10_000))
    messages = []
    for _ in range(draw(st.integers(least, 8))):
        messages.append(user(draw(TEXTS)))
        for kind in draw(st.lists(st.sampled_from(["say", "call", "skill", "see", "calls"]), max_size=5)):
            if kind == "say":
                messages.append(says(draw(TEXTS)))
                continue
            count = draw(st.integers(2, 4)) if kind == "calls" else 1
            names = {"skill": ["activate_skill"], "see": ["view_image"]}.get(kind, ["grep", "shell_exec"])
            pictures = (PICTURE,) if kind == "see" else ()
            made = [ToolCall(f"c{next(numbers)}", draw(st.sampled_from(names)), "{}") for _ in range(count)]
            messages.append(Message("assistant", tuple(made)))
            results = tuple(ToolResult(c.id, draw(TEXTS), images=pictures) for c in made)
            messages.append(Message("user", results))
    return tuple(messages)
