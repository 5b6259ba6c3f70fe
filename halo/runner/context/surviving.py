"""What a summary must not lose: identifiers, word for word, and tasks that are open. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from halo.compiler.tokens import estimate
from halo.records.messages import Message
from halo.runner.context.notes import invokes_skill
from halo.runner.context.units import has_results

# The newest of each kind that are looked for. More is no memory but a listing.
_MOST = 100

# Characters of a line that may be an item of a list of tasks.
_LONGEST_TASK = 300

_APPENDIX = "[Kept word for word, because the summary does not name it]"

# One pattern, so that a number within a path is not found a second time. What comes first counts.
_IDENTIFIER = re.compile(
    r"""
    (?P<url>      https?://[^\s<>"'`)\]}]+ )
  | (?P<uuid>     (?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-]) )
  | (?P<windows>  (?<!\w)[A-Za-z]:\\[^\s"'`<>|]+ )
  | (?P<path>     (?<![\w/.~@+-])(?:~|\.{1,2})?(?:/[\w.@+-]+)+/?
                | (?<![\w/.@+-])[\w@+-][\w.@+-]*(?:/[\w.@+-]+){2,}/?
                | (?<![\w/.@+-])[\w@+-][\w.@+-]*/[\w@+-][\w@+.-]*\.[A-Za-z]\w{0,7}(?![\w/]) )
  | (?P<hash>     (?<![\w-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,128}(?![\w-]) )
  | (?P<date>     (?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-]) )
  | (?P<ticket>   (?<![\w-])[A-Z][A-Z0-9]{1,9}-\d+(?![\w-]) )
  | (?P<version>  (?<![\w.])v?\d+\.\d+(?:\.\d+)+(?![\w-]) )
  | (?P<tag>      (?<![\w&])\#\d+(?!\w) )
  | (?P<named>    (?<![\w.-])[A-Za-z_][\w-]{1,39}[ ]?[:=][ ]?(?P<value>\d[\d.,]*)(?![\w-])
                | (?<![\w.-])[A-Za-z][\w-]{2,39}[ ]
                  (?P<number>\d{1,3}(?:,\d{3})+|\d{3,}(?:[.,]\d+)*)(?![\w-]) )
    """,
    re.VERBOSE,
)
_TASK = re.compile(r"^[ \t]*[-*+] \[(?P<done>[ xX])\][ \t]+(?P<text>\S.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_STOPS = ".,;:!?*_"

_T = TypeVar("_T", bound=str | tuple[str, str])


class _Named(NamedTuple):
    """An identifier as it was said, and what a summary must have: of a number with a name the number."""

    text: str
    wanted: str


def missing_from(summary: str, history: Sequence[Message]) -> tuple[str, ...]:
    """Return what `history` names and a summary of it does not: identifiers and open tasks.

    What the user and the model said counts, not what tools returned: a listing of files is no memory. In the
    order in which it was said; of a great many the newest.
    """
    said = [m.text for m in history if not has_results(m) and not invokes_skill(m)]
    lost = [found.text for found in _newest(_identifiers(said)) if not _names(summary, found.wanted)]
    words = _words(summary)
    return (*lost, *(task for task in _newest(_open_tasks(said)) if not words >= _words(task)))


def appendix(missing: Sequence[str], most: int) -> str:
    """Return what is put behind a summary: what it lost, in `most` tokens; the newest stay."""
    kept: list[str] = []
    left = most - estimate(_APPENDIX.encode()) - 10
    for line in reversed(missing):
        left -= estimate(f"- {line}\n".encode())
        if left < 0:
            break
        kept.insert(0, line)
    more = len(missing) - len(kept)
    lines = [_APPENDIX, *(f"- {line}" for line in kept), *([f"(and {more:,} more)"] if more else [])]
    return "\n".join(lines)


def _identifiers(texts: Iterable[str]) -> Iterator[_Named]:
    for text in texts:
        for match in _IDENTIFIER.finditer(text):
            found = match[0].rstrip(_STOPS)
            number = (match["value"] or match["number"] or "").rstrip(_STOPS)
            if len(found) > 1:
                yield _Named(found, number or found)


def _open_tasks(texts: Iterable[str]) -> Iterator[str]:
    """Yield the tasks that are not ticked off where they are named last."""
    state: dict[str, tuple[bool, str]] = {}
    for text in texts:
        for match in _TASK.finditer(text):
            task = match["text"].strip()
            if len(task) <= _LONGEST_TASK:
                key = " ".join(task.lower().split())
                state.pop(key, None)
                state[key] = (match["done"] == " ", task)
    return (f"[ ] {task}" for is_open, task in state.values() if is_open)


def _newest(found: Iterable[_T]) -> list[_T]:
    """Return the last ones, each where it was named last."""
    places: dict[_T, None] = {}
    for each in found:
        places.pop(each, None)
        places[each] = None
    return [*places][-_MOST:]


def _names(summary: str, identifier: str) -> bool:
    """Tell whether a summary has an identifier, whole and not as the part of another one."""
    return re.search(rf"(?<![\w-]){re.escape(identifier)}(?![\w-]|[./]\w)", summary) is not None


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text.lower()) if len(word) > 2)
