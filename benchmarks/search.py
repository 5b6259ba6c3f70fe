"""grep with ripgrep as a sieve and without, over trees of source text.

    python benchmarks/search.py [--files 100,1000,10000]

Makes a tree of so many files of about 7 KB, one in twelve with letters beyond ASCII, in the system's temporary
folder, and searches it with the tool itself: wall seconds, the best of three, the files in the cache. The floor
is reading the files through the confined walk, which any search that nothing can lead out of the workspace has
to do; the peer is ripgrep by itself, which does not. Exits 1 when the two ways of Halo differ in what they
find. Aim: 1,000 files and more at least twice as fast with ripgrep.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from halo.files.roots import ConfinedRoot
from halo.tools import grep
from halo.tools.base import Surroundings
from halo.tools.paths import locate
from halo.tools.sieve import ripgrep

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


def measure(folder: str, count: int) -> bool:
    """Print the rows of one tree; tell whether both ways found the same."""
    around = Surroundings(ConfinedRoot(folder), {}, lambda _skill, _arguments: None)
    program = ripgrep(folder)
    assert program is not None, "ripgrep is not installed"
    floor, _ = best(lambda: sum(1 for _ in grep._Files(locate(".", around), []).read(lambda: None)))
    same = True
    for name, pattern in PATTERNS.items():
        arguments = {"pattern": pattern}
        grep.ripgrep = lambda _workspace: program
        sieved, found = best(lambda a=arguments: grep.grep(a, around))
        grep.ripgrep = lambda _workspace: None
        plain, expected = best(lambda a=arguments: grep.grep(a, around))
        peer, _ = best(
            lambda p=pattern: subprocess.run([program, "-uu", "-c", "-e", p, folder], capture_output=True)
        )
        same = same and found == expected
        alone = f"{peer:.3f}" if name != "look-around" else ""
        print(
            f"| {count:,} | {name} | {plain:.2f} | {sieved:.2f} | {plain / sieved:.1f} | {floor:.2f} | {alone} |"
        )
    return same


def main() -> int:
    """Measure each size."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--files", default="100,1000,10000", help="sizes of the trees")
    sizes = [int(size) for size in options.parse_args().files.split(",")]
    print("| files | pattern | without, s | with, s | × faster | reading alone, s | ripgrep alone, s |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    same = True
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_tree(folder, count)
            same = measure(folder, count) and same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
