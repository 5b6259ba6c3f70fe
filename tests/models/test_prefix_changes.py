"""What changed between two prefixes, and how many cached tokens that costs."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.prefix import Prefix, compare
from halo.records.messages import Message, Text, user
from halo.records.tools import LISTABLE_TOOLS

GREP, GLOB, READ = (LISTABLE_TOOLS[name] for name in ("grep", "glob", "file_read"))
SHOTS = (user("Hi"), Message("assistant", (Text("Hello"),)))
BEFORE = Prefix("You are a.\nBe brief.\n", "You", (GREP, GLOB), SHOTS, "f")


def after(**fields):
    return msgspec.structs.replace(BEFORE, **fields)


def test_equal_prefixes_cost_nothing():
    assert compare(BEFORE, after(fingerprint="g", unfilled="x")) is None


def test_tools_by_name_and_everything_behind_them_is_lost():
    other = msgspec.structs.replace(GLOB, description="Another.")
    change = compare(BEFORE, after(tools=(READ, other), system="Other"))
    assert (change.part, change.added, change.removed, change.changed) == (
        "tools",
        ("file_read",),
        ("grep",),
        ("glob",),
    )
    everything = [canonical_json(part) for part in (GREP, GLOB, *SHOTS)]
    assert change.lost == sum(map(estimate, everything)) + estimate(BEFORE.system.encode())
    assert str(change).startswith("tools: added file_read; removed grep; changed glob (about ")


def test_the_order_of_tools_counts():
    assert "in another order" in str(compare(BEFORE, after(tools=(GLOB, GREP))))


def test_the_system_text_by_byte_and_line():
    change = compare(BEFORE, after(system="You are a.\nBe long.\n"))
    assert (change.part, change.byte, change.line) == ("system", 14, 2)
    assert "brief" in change.before
    assert "long" in change.after
    assert change.lost == estimate(b"brief.\n") + sum(estimate(canonical_json(shot)) for shot in SHOTS)
    assert "line 2, byte 14" in str(change)


def test_few_shots_by_message():
    change = compare(BEFORE, after(few_shots=SHOTS[:1]))
    assert (change.part, change.message, change.after) == ("few_shots", 2, "the end")
    assert change.lost == estimate(canonical_json(SHOTS[1]))
    grown = compare(BEFORE, after(few_shots=(*SHOTS, user("More"))))
    assert (grown.message, grown.before, grown.lost) == (3, "the end", 0)


@given(st.text("aé\n", max_size=12), st.text("aé\n", max_size=12))
def test_the_byte_is_the_first_that_differs(one, other):
    change = compare(Prefix(one, ""), Prefix(other, ""))
    old, new = one.encode(), other.encode()
    if change is None:
        assert one == other
    else:
        assert old[: change.byte] == new[: change.byte]
        assert old[change.byte : change.byte + 1] != new[change.byte : change.byte + 1]
        assert change.line == old[: change.byte].count(b"\n") + 1
