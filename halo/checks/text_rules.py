"""Rules about the text of layers: what hides in it, and what must not stand in it."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from halo.build.origins import PromptLine
from halo.checks.subject import Subject
from halo.records.diagnostics import Diagnostic
from halo.workspace.hidden import find_hidden, named


def hidden_text(subject: Subject) -> Iterator[Diagnostic]:
    """H701: characters that no reader sees and every model reads."""
    for origin in subject.origins():
        if found := list(find_hidden(origin.text)):
            yield Diagnostic("hidden-characters", "error", named(found), origin.source, origin.line)


# What keys of well-known services look like, by the prefix that their makers gave them to be found by.
# Whatever a line holds, a search takes a time that grows with its length alone: a run is entered once.
_KEYS = {
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an Anthropic key": r"\bsk-ant-[\w-]{20,}",
    "an OpenAI key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{50,})",
    "a GitLab token": r"\bglpat-[\w-]{20,}",
    "a Slack token": r"\bxox[abeoprs]-[\w-]{10,}",
    "a Google key": r"\bAIza[\w-]{35}",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a package registry token": r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,})",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a signed web token": r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
}
_KNOWN = re.compile("|".join(f"(?P<k{i}>{pattern})" for i, pattern in enumerate(_KEYS.values())))
_ASSIGNED = re.compile(
    r"(?i)(?<![\w-])[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key)[\w-]{0,40}[\"']?\s*(?:\bis\b\s*:?|[:=])\s*[\"'`]?"
    r"(?P<value>[^\s\"'`<>{}()\[\],;$]{12,})"
)
_LEAST_BITS = 3.5  # of entropy a character; words stay below, random text is above


def secrets_in_text(subject: Subject) -> Iterator[Diagnostic]:
    """H702: a credential in a layer, which git and every model provider then have."""
    for origin in subject.origins():
        what = credential_in(origin.text)
        if what:
            yield Diagnostic(
                "secret-in-layer", "error", f"this looks like {what}", origin.source, origin.line
            )


def credential_in(text: str) -> str:
    """Say what kind of credential stands in a line; empty for none. The credential itself is not repeated."""
    for known in _KNOWN.finditer(text):
        if not _is_example(known[0]):
            return list(_KEYS)[int(str(known.lastgroup)[1:])]
    for match in _ASSIGNED.finditer(text):
        value = match["value"].rstrip(".")
        mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
        if mixed and _entropy(value) >= _LEAST_BITS and not _is_example(value):
            return "a password or token"
    return ""


def _is_example(value: str) -> bool:
    lower = value.lower()
    return any(
        word in lower for word in ("example", "xxxx", "your-", "your_", "placeholder", "****", "...", "://")
    )


def _entropy(value: str) -> float:
    """Return the entropy of `value` in bits a character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


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
