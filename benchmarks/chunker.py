"""Cutting an answer into messages, in MB/s.

    python benchmarks/chunker.py [--megabytes 1]

The answer is made up: prose with links and code, lists, tables and blocks of code. It is fed whole, in deltas
of a usual size, and in the smallest; the best of three. The floor is to slice a string into pieces of the
same size, which looks at nothing; the first peer looks for line endings alone. `semantic-text-splitter` (a
Markdown splitter written in Rust, which does not stream, closes no code and keeps no separators) is measured
where it is installed. Aim: 1 MB/s, a thousand times what a model writes.
Exits 1 when the ways of feeding differ, or when the parts do not join to the answer.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from halo.sessions.delivery.chunker import Chunker, chunks_of
from halo.sessions.delivery.chunks import ChunkConfig

PROSE = (
    "The station at Oban reported wind of 12 m/s, see [the log](https://example.org/log?x=1) and `wind.csv`. "
    "Then it fell silent for an hour; nobody knows why, and **nobody asked**. "
)
ANSWER = (
    f"{PROSE * 3}\n\n- the first item with some words\n- the second one with more of them\n\n```python\n"
    + "    value = compute(1, 2, 3)\n" * 20
    + "```\n\n| name | value |\n|---|---|\n| wind | 12 |\n| rain | 3 |\n\n"
)
ROUNDS = 3


def best(action: Callable[[], object]) -> tuple[float, object]:
    """Return the shortest time of some rounds, and what the last one gave."""
    times, result = [], None
    for _ in range(ROUNDS):
        began = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - began)
    return min(times), result


def fed(text: str, size: int, config: ChunkConfig) -> tuple[object, ...]:
    """Feed a text in deltas."""
    chunker = Chunker(config)
    chunks = [chunk for i in range(0, len(text), size) for chunk in chunker.feed(text[i : i + size])]
    return (*chunks, *chunker.finish())


def sliced(text: str, size: int) -> list[str]:
    """Cut a text without looking at it."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def at_lines(text: str, size: int) -> Iterator[str]:
    """Cut a text at the last line ending that fits."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + size) if start + size < len(text) else len(text)
        end = end if end > start else start + size
        yield text[start:end]
        start = end + 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=1.0)
    text = ANSWER * max(1, int(parser.parse_args().megabytes * 1e6 / len(ANSWER)))
    config = ChunkConfig()
    rows: list[tuple[str, float]] = []

    def measure(name: str, action: Callable[[], object]) -> object:
        seconds, result = best(action)
        rows.append((name, len(text) / 1e6 / seconds))
        return result

    measure("slices (floor)", lambda: sliced(text, config.max_chars))
    measure("at line endings", lambda: list(at_lines(text, config.max_chars)))
    try:
        from semantic_text_splitter import MarkdownSplitter
    except ImportError:
        print("semantic-text-splitter is not installed", file=sys.stderr)
    else:
        splitter = MarkdownSplitter((config.min_chars, config.max_chars))
        measure("semantic-text-splitter", lambda: splitter.chunks(text))
    whole = measure("halo, whole", lambda: chunks_of(text, config))
    others = [
        measure(f"halo, deltas of {size}", lambda size=size: fed(text, size, config)) for size in (64, 4)
    ]
    measure("halo, a message a paragraph", lambda: chunks_of(text, ChunkConfig(1, 4000, by_paragraph=True)))

    floor = rows[0][1]
    print(f"{len(text) / 1e6:.1f} MB, {len(whole)} chunks of at most {config.max_chars} characters")
    for name, speed in rows:
        print(f"{name:<28} {speed:>10.2f} MB/s {floor / speed:>10.0f} x the floor's time")
    joined = "".join(chunk.source + chunk.separator for chunk in whole)
    return 0 if joined == text and all(other == whole for other in others) else 1


if __name__ == "__main__":
    sys.exit(main())
