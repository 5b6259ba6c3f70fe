"""Remarks in a layer that switch off a rule of `halo check` for one line.

In Markdown a line of its own above the line that is meant: `<!-- halo: ignore H601 -->`; the compiler leaves
it out of the prompt. In YAML a remark at the end of the line, or a line of its own above it:
`# halo: ignore H601`. A rule is named by its number or its code. Which rules there are is not known here:
what has the shape of one is taken for one.
"""

import re
from typing import NamedTuple

_RULE = r"(?:[Hh]\d{3}|[A-Za-z]+(?:-[A-Za-z]+)+)(?![\w-])"
# Possessive: a list that ends in nothing would else be tried anew at each of its rules.
_IGNORE = rf"halo:[ \t]*ignore[ \t]+(?P<rules>{_RULE}(?:[ \t]*,[ \t]*{_RULE})*+)"

# A whole line, with its newline.
MARKDOWN = re.compile(rf"^[ \t]*<!--[ \t]*{_IGNORE}[^\n]*?-->[ \t]*$\n?", re.MULTILINE)
_YAML = re.compile(rf"(?:^|[ \t])#[ \t]*{_IGNORE}")

# What is meant as such a remark.
_MEANT_IN_MARKDOWN = re.compile(r"[ \t]*<!--[ \t]*halo:", re.IGNORECASE)
_MEANT_IN_YAML = re.compile(r"(?:^|[ \t])#[ \t]*halo:", re.IGNORECASE)


class Remark(NamedTuple):
    """A remark on `line` that switches `rules` off for the line `about`; no rules: it is not understood."""

    line: int
    about: int
    rules: tuple[str, ...]


def find_suppressions(text: str, *, yaml: bool) -> list[Remark]:
    """Find the remarks in canonical `text`; lines count from 1."""
    found: list[Remark] = []
    for number, line in enumerate(text.split("\n"), start=1):
        meant = _MEANT_IN_YAML.search(line) if yaml else _MEANT_IN_MARKDOWN.match(line)
        if meant is None:
            continue
        match = _YAML.search(line) if yaml else MARKDOWN.match(line)
        rules = tuple(re.split(r"[ \t]*,[ \t]*", match["rules"])) if match is not None else ()
        alone = not yaml or not line[: meant.start()].strip()
        found.append(Remark(number, number + 1 if alone else number, rules))
    return found
