"""Rules about the text of layers: what hides in it, and what must not stand in it."""

import re
from collections.abc import Iterator

from halo.build.trace.origins import PromptLine
from halo.checks.credentials import credential_in
from halo.checks.subject import Subject
from halo.records.diagnostics import Diagnostic
from halo.workspace.hidden import find_hidden, named


def hidden_text(subject: Subject) -> Iterator[Diagnostic]:
    """H701: characters that no reader sees and every model reads."""
    for origin in subject.origins():
        if found := list(find_hidden(origin.text)):
            yield Diagnostic("hidden-characters", "error", named(found), origin.source, origin.line)


def secrets_in_text(subject: Subject) -> Iterator[Diagnostic]:
    """H702: a credential in a layer, which git and every model provider then have."""
    for origin in subject.origins():
        what = credential_in(origin.text)
        if what:
            yield Diagnostic(
                "secret-in-layer", "error", f"this looks like {what}", origin.source, origin.line
            )


def unclosed_front_matter(subject: Subject) -> Iterator[Diagnostic]:
    """H104: text that begins as front matter does and never ends it, so that the model reads the keys."""
    seen: set[str] = set()
    for prompt in subject.prompts:
        for first, second in zip(prompt.lines, prompt.lines[1:], strict=False):
            origin = first.origins[-1]
            opens = (
                first.text == "---"
                and origin.how == "verbatim"
                and origin.line == 1
                and _KEY.match(second.text) is not None
            )
            if opens and origin.source not in seen:
                seen.add(origin.source)
                message = "this looks like front matter that no line --- ends; all of it is text"
                yield Diagnostic("unclosed-front-matter", "warning", message, origin.source, 1)


_KEY = re.compile(r"[\w-]+:(?: |$)")

_LEAST_REPEATED = 160  # characters; shorter runs are headings, links and common phrases


def repeated_text(subject: Subject) -> Iterator[Diagnostic]:
    """H603: a paragraph that a prompt holds twice, from two layers: both are paid for in each request."""
    said: set[tuple[str, int]] = set()
    for prompt in subject.agents:
        first: dict[str, tuple[str, int]] = {}
        for text, source, line in _paragraphs(prompt.lines):
            place = (source, line)
            earlier = first.setdefault(text, place)
            if earlier[0] != source and place not in said:
                said.add(place)
                yield Diagnostic(
                    "repeated-text",
                    "warning",
                    f"{len(text):,} characters that stand in {earlier[0]}:{earlier[1]} too,"
                    f" and in the prompt {prompt.target.label} twice",
                    source,
                    line,
                )


def _paragraphs(lines: list[PromptLine]) -> Iterator[tuple[str, str, int]]:
    """Yield the paragraphs of layers in a prompt, white space made even, with source and line."""
    words: list[str] = []
    place = ("", 0)
    for line in lines:
        origin = line.origins[0]
        plain = bool(line.text.strip()) and origin.how == "verbatim"
        if words and not (plain and origin.source == place[0]):
            yield from _long(words, place)
            words = []
        if plain:
            if not words:
                place = (origin.source, origin.line)
            words.extend(line.text.split())
    yield from _long(words, place)


def _long(words: list[str], place: tuple[str, int]) -> Iterator[tuple[str, str, int]]:
    text = " ".join(words)
    if len(text) >= _LEAST_REPEATED:
        yield (text, *place)
