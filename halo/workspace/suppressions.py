"""Remarks in a layer that switch off a rule of `halo check` for one line.

In Markdown a line of its own above the line that is meant: `<!-- halo: ignore H601 -->`; the compiler leaves
it out of the prompt. In YAML a remark at the end of the line, or a line of its own above it:
`# halo: ignore H601`.
"""

import re

# Possessive: a list that ends in nothing would else be tried anew at each of its numbers.
_NUMBERS = r"(?P<rules>H\d{3}(?:[ \t]*,[ \t]*H\d{3})*+)"

# A whole line, with its newline.
MARKDOWN = re.compile(
    rf"^[ \t]*<!--[ \t]*halo:[ \t]*ignore[ \t]+{_NUMBERS}\b[^\n]*?-->[ \t]*$\n?", re.MULTILINE
)
_YAML = re.compile(rf"#[ \t]*halo:[ \t]*ignore[ \t]+{_NUMBERS}\b")
_YAML_ALONE = re.compile(rf"[ \t]*#[ \t]*halo:[ \t]*ignore[ \t]+{_NUMBERS}\b")


def find_suppressions(text: str, *, yaml: bool) -> dict[int, frozenset[str]]:
    """Return the rule numbers that are switched off, by line (from 1) of canonical `text`."""
    found: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if "halo:" not in line:
            continue
        match = _YAML.search(line) if yaml else MARKDOWN.match(line)
        if match is None:
            continue
        rules = frozenset(re.findall(r"H\d{3}", match["rules"]))
        place = number + 1 if not yaml or _YAML_ALONE.match(line) else number
        found[place] = found.get(place, frozenset()) | rules
    return found
