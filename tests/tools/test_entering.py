"""What runs first in the sandbox finds the mounts it is told of, wherever they stand in the kernel's table."""

import os
import subprocess
import sys

import pytest

from halo.tools.sandbox import entering

SHELLS = [path for path in ("/bin/bash", "/bin/sh") if os.access(path, os.X_OK)]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def mounted():
    """What the kernel says of each mount of this process: device, folder in it, mount point."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [" ".join(line.split(" ")[2:5]) for line in file]


@pytest.fixture(params=SHELLS)
def enter(request, monkeypatch):
    monkeypatch.setattr(entering, "shell", lambda: request.param)

    def run(origins, **variables):
        argv = entering.entering(["/bin/sh", "-c", 'echo "$1 $IFS$GIVEN"', "x", "a  *"], origins, variables)
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
        )

    return run


def test_in_the_order_of_the_table(enter):
    done = enter(mounted(), GIVEN="it is")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["a", "*", "it", "is"]


@pytest.mark.parametrize(
    "order", [lambda all_: all_[::-1], lambda all_: [*all_[3:], *all_[:3]], lambda all_: [all_[-1]] * 2]
)
def test_in_any_other_order(enter, order):
    assert enter(order(mounted())).returncode == 0


@pytest.mark.parametrize(
    "other",
    [
        lambda one: one + "x",
        lambda one: one[:-1] or "x",
        lambda one: f"9{one}",
        lambda one: " ".join(one.split(" ")[:2]),
        lambda one: "*",
        lambda one: "",
    ],
)
@pytest.mark.parametrize("place", [0, 2, -1])
def test_what_is_not_there_ends_everything(enter, other, place):
    origins = mounted()
    origins[place] = other(origins[place])
    done = enter(origins)
    assert done.returncode == 1
    assert done.stderr == f"{entering.MOVED}\n"
    assert done.stdout == ""
