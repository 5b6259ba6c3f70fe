"""Takes out the findings that authors switched off, and says of each remark that does nothing why."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.checks.registry import RULES, rule_called
from halo.errors import HaloError, near_miss_hint
from halo.files.canonical import canonical_text
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.suppressions import Remark, find_suppressions


class Kept(NamedTuple):
    """What is left, and how many findings were switched off."""

    findings: list[Diagnostic]
    suppressed: int


def without_suppressed(tree: Tree, found: list[Diagnostic], sources: Iterable[str]) -> Kept:
    """Apply the remarks in `sources`, and in those of the findings themselves."""
    remarks = {
        source: _remarks(tree, source)
        for source in sorted({*sources, *(finding.source for finding in found)})
    }
    off = {
        (source, remark.about, rule.number)
        for source, there in remarks.items()
        for remark in there
        for name in remark.rules
        if (rule := rule_called(name)) is not None
    }
    places = [(f.source, f.line, RULES[f.code].number) for f in found]
    used = off.intersection(places)
    kept = [finding for finding, place in zip(found, places, strict=True) if place not in off]
    for source, there in remarks.items():
        for remark in there:
            kept.extend(_idle(source, remark, used))
    return Kept(kept, len(found) - sum(place not in off for place in places))


def _idle(source: str, remark: Remark, used: set[tuple[str, int, str]]) -> Iterator[Diagnostic]:
    if not remark.rules:
        message = (
            "this remark is not understood and switches nothing off;"
            " it is 'halo: ignore', then rules such as H702 or secret-in-layer, divided by commas"
            + ("" if _is_yaml(source) else ", on a line of its own above the one that is meant")
        )
        yield Diagnostic("unknown-suppression", "warning", message, source, remark.line)
    for name in sorted(set(remark.rules)):
        rule = rule_called(name)
        if rule is None:
            hint = near_miss_hint(name.lower(), list(RULES)) if "-" in name else ""
            message = f"there is no rule {name}" + (f"; {hint}" if hint.startswith("did") else "")
            yield Diagnostic("unknown-suppression", "warning", message, source, remark.line)
        elif (source, remark.about, rule.number) not in used:
            yield Diagnostic(
                "unused-suppression", "info", f"{rule.number} says nothing here", source, remark.line
            )


def _is_yaml(source: str) -> bool:
    return source.endswith((".yaml", ".yml"))


def _remarks(tree: Tree, source: str) -> list[Remark]:
    if not source.endswith((".md", ".mdc", ".yaml", ".yml")):
        return []
    try:
        text = canonical_text(tree.read(source), source)
    except HaloError:
        return []  # what cannot be read is a finding of its own
    return find_suppressions(text, yaml=_is_yaml(source))
