"""A request that was recorded with other tools: which they are, and whether another access is why."""

import pytest

from halo.models.tool_differences import tool_difference

OTHER = "recorded with other tools: "


def tools(*names):
    needs = {"shell_exec": "workspace", "file_write": "workspace", "mine": "full"}
    return [{"name": name, "access": needs.get(name, "readonly")} for name in names]


@pytest.mark.parametrize(
    ("recorded", "now", "access", "told"),
    [
        (
            ("grep", "shell_exec"),
            ("grep",),
            "readonly",
            "shell_exec is missing here; the recording was made with workspace access or more, here it is readonly",
        ),
        (
            ("file_write", "grep", "shell_exec"),
            (),
            "readonly",
            (
                "file_write, grep, shell_exec are missing here; the recording was made with workspace access or "
                "more, here it is readonly"
            ),
        ),
        (
            ("mine", "shell_exec"),
            ("shell_exec",),
            "workspace",
            "mine is missing here; the recording was made with full access or more, here it is workspace",
        ),
        # Access is not why: it permits what is missing.
        (("grep", "shell_exec"), ("grep",), "workspace", "shell_exec is missing here"),
        (("grep", "glob"), ("grep",), "readonly", "glob is missing here"),
        (("grep",), ("glob", "grep"), "full", "glob is new here"),
        (("grep",), ("glob",), "full", "grep is missing here; glob is new here"),
        (("shell_exec",), ("shell_exec", "file_write"), "full", "file_write is new here"),
        (
            ("grep",),
            ("file_write", "grep"),
            "full",
            "file_write is new here; the recording may have been made with less access, here it is full",
        ),
    ],
)
def test_which_tools_only_one_side_has(recorded, now, access, told):
    found = tool_difference(tools(*recorded), tools(*now), access)
    assert found.told == OTHER + told
    assert found.refused == ("was made with" in told)


def test_the_same_tools_in_whatever_order_are_no_other_tools():
    assert tool_difference(tools("a", "b"), tools("b", "a"), "readonly") is None
    assert tool_difference([], [], "full") is None


def test_a_recording_that_was_changed_by_hand_is_read_all_the_same():
    odd = [{"name": "x", "access": "all"}, {"access": 3}, {"name": ["y"]}]
    assert tool_difference(odd, [], "readonly").told == f"{OTHER}x, , ['y'] are missing here"
