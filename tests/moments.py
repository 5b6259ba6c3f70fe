"""Somebody who exchanges files between two steps of a program, at every moment there is.

A race that is run a thousand times proves little: the moment between a check and its use may be short. Here
each system call on files is such a moment, one after the other.
"""

import os
from collections.abc import Callable, Iterator, Mapping

CALLS = ("open", "stat", "lstat", "mkdir", "replace", "readlink", "scandir", "unlink")


def interrupted(act: Callable[[], object], steps: Mapping[int, Callable[[], object]]) -> int:
    """Run `act` with `steps[n]` done just before its n-th call; return how many calls it made."""
    real = {name: getattr(os, name) for name in CALLS}
    made, busy = 0, False

    def wrapping(call):
        def wrapped(*arguments, **more):
            nonlocal made, busy
            if not busy:
                step = steps.get(made)
                made += 1
                if step is not None:
                    busy = True
                    step()
                    busy = False
            return call(*arguments, **more)

        return wrapped

    for name, call in real.items():
        setattr(os, name, wrapping(call))
    try:
        act()
    finally:
        for name, call in real.items():
            setattr(os, name, call)
    return made


def moments(calls: int) -> Iterator[tuple[int, int]]:
    """Yield when something is exchanged and when it is put back: every pair, the end included."""
    yield from ((there, back) for there in range(calls) for back in range(there + 1, calls + 1))


def exchange(folder: str, name: str, other: str) -> Callable[[], None]:
    """Return a step that puts `other` in the place of `name`, and the other way round."""

    def step():
        os.rename(f"{folder}/{name}", f"{folder}/.exchanged")
        os.rename(f"{folder}/{other}", f"{folder}/{name}")
        os.rename(f"{folder}/.exchanged", f"{folder}/{other}")

    return step
