"""grep with ripgrep as a sieve and without, over trees of source text.

    python benchmarks/search.py [--files 100,1000,10000]

Makes a tree of so many files of about 7 KB, one in twelve with letters beyond ASCII, in the system's
temporary folder, and searches it with the tool itself: wall seconds, the best of three, the files in the
cache. The floor is to walk and read the files as a tool does, which nothing can lead out of the workspace.
The peer is ripgrep by itself, which may be led out. Exits 1 when the two ways of Halo differ in what they
find. Aim: twice as fast where there are 10,000 files, and never slower.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from halo.files.programs import find_program
from halo.files.roots import ConfinedRoot
from halo.tools.base import Surroundings
from halo.tools.grep import grep
from halo.tools.paths import locate, read_bytes
from halo.tools.walking import Walk

PATTERNS = {
    "word": "unheard_of",
    "call": r"^\s*def never_\w+\(",
    "choice": "(?i)error: (lost|broken)_[a-z]+",
    "look-around": "(?<=un)heard_of",  # only Python's engine has it
}
WORDS = ("station", "reading", "value", "self", "return", "import", "def", "error", "wind", "snow", "class")
ROUNDS = 3


def make_tree(folder: str, count: int) -> int:
    """Write the files, always the same; return how many bytes they have."""
    chance = random.Random(7)
    size = 0
    for number in range(count):
        lines = [
            " " * 4 * chance.randrange(3) + " ".join(chance.choices(WORDS, k=chance.randrange(2, 12)))
            for _ in range(140)
        ]
        if number % 12 == 0:
            lines.append("# naïve")
        path = os.path.join(folder, f"d{number % 97:02}", f"e{number % 7}", f"{number:05}.py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            size += file.write("\n".join(lines) + "\n")
    return size


def best(action: Callable[[], object]) -> tuple[float, object]:
    """Return the shortest time of some rounds, and what the last one gave."""
    times, result = [], None
    for _ in range(ROUNDS):
        began = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - began)
    return min(times), result


def read_all(around: Surroundings) -> int:
    """Read every file below the root as tools do; return how many bytes they have."""
    walk = Walk(locate(".", around), frozenset())
    return sum(len(read_bytes(place, 1 << 23)) for place, found in walk if found.kind == "file")


def measure(folder: str, count: int) -> bool:
    """Print the rows of one tree; tell whether both ways found the same."""
    around = Surroundings(ConfinedRoot(folder), {}, lambda _skill, _arguments: None)
    path = os.environ["PATH"]
    program = find_program("rg", folder)
    assert program is not None, "ripgrep is not installed"
    floor, _ = best(lambda: read_all(around))
    same = True
    for name, pattern in PATTERNS.items():
        search = partial(grep, {"pattern": pattern}, around)
        sieved, found = best(search)
        os.environ["PATH"] = ""
        plain, expected = best(search)
        os.environ["PATH"] = path
        alone, _ = best(partial(by_itself, program, pattern, folder))
        same = same and found == expected
        times = (f"{plain:.2f}", f"{sieved:.2f}", f"{plain / sieved:.1f}", f"{floor:.2f}", f"{alone:.3f}")
        print("|", " | ".join((f"{count:,}", name, *times)), "|")
    return same


def by_itself(program: str, pattern: str, folder: str) -> None:
    """Run ripgrep as a user would, on everything."""
    engine = "--pcre2" if "?<" in pattern else "--engine=default"
    subprocess.run(
        [program, engine, "--no-ignore", "--hidden", "-c", "-e", pattern, folder],
        capture_output=True,
        check=False,
    )


def main() -> int:
    """Measure each size."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--files", default="100,1000,10000", help="sizes of the trees")
    sizes = [int(size) for size in options.parse_args().files.split(",")]
    print("| files | pattern | without, s | with, s | times faster | reading alone, s | ripgrep alone, s |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    same = True
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_tree(folder, count)
            same = measure(folder, count) and same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
