"""Runs every rule over a workspace, and takes out what its authors switched off."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from halo.checks import cost_rules, skill_rules, text_rules, workspace_rules
from halo.checks.registry import RULES
from halo.checks.subject import Subject
from halo.errors import HaloError
from halo.files.canonical import canonical_text
from halo.files.tree import Tree
from halo.models.prompt_counts import Counter, estimate_prompt
from halo.records.diagnostics import Diagnostic
from halo.workspace.suppressions import find_suppressions


class Report(NamedTuple):
    """What was found, by place; `suppressed` is how many findings were switched off."""

    findings: tuple[Diagnostic, ...]
    suppressed: int

    @property
    def failed(self) -> bool:
        """Whether something was found that is more than a remark."""
        return any(finding.severity != "info" for finding in self.findings)


_RULES: tuple[Callable[[Subject], Iterator[Diagnostic]], ...] = (
    workspace_rules.unused,
    workspace_rules.models,
    workspace_rules.collisions,
    workspace_rules.index_links,
    workspace_rules.settings_values,
    workspace_rules.misfits,
    workspace_rules.speechless_agents,
    skill_rules.specification,
    text_rules.unclosed_front_matter,
    cost_rules.volatile_prefix,
    cost_rules.below_minimum,
    text_rules.repeated_text,
    text_rules.hidden_text,
    text_rules.secrets_in_text,
)


def check(subject: Subject, budget: int | None = None, count: Counter = estimate_prompt) -> Report:
    """Apply every rule; `budget` is the most tokens that a prompt may have, `count` says how many it has."""
    found = list(subject.survey.oddities)
    for prompt in subject.prompts:
        found.extend(prompt.compiled.manifest.diagnostics)
    found.extend(_broken(error, f"{target.label}: ") for target, error in subject.failed)
    for rule in _RULES:
        try:
            found.extend(rule(subject))
        except HaloError as error:
            found.append(_broken(error))
    if budget is not None:
        found.extend(cost_rules.over_budget(subject, budget, count))
    # An agent is compiled as root and as sub: both say the same of a layer.
    distinct = sorted(dict.fromkeys(found), key=lambda d: (d.source, d.line, d.code, d.message))
    return _without_suppressed(subject, distinct)


def _broken(error: HaloError, what: str = "") -> Diagnostic:
    """Say what is broken where it is; `what` failed because of it, for an error that names no place."""
    hint = f" ({error.hint})" if error.hint else ""
    message = f"{'' if error.file else what}{error.message}{hint}"
    return Diagnostic("does-not-compile", "error", message, error.file or "", error.line or 0)


def _without_suppressed(subject: Subject, found: list[Diagnostic]) -> Report:
    sources = {finding.source for finding in found} | {origin.source for origin in subject.origins()}
    remarks = {source: _suppressions(subject.tree, source) for source in sorted(sources)}
    used: set[tuple[str, int, str]] = set()
    kept: list[Diagnostic] = []
    for finding in found:
        number = RULES[finding.code].number
        if number in remarks[finding.source].get(finding.line, ()):
            used.add((finding.source, finding.line, number))
        else:
            kept.append(finding)
    for source, lines in remarks.items():
        for line, numbers in lines.items():
            kept.extend(
                Diagnostic("unused-suppression", "info", f"{number} says nothing here", source, line)
                for number in sorted(numbers)
                if (source, line, number) not in used
            )
    kept.sort(key=lambda d: (d.source, d.line, d.code, d.message))
    return Report(tuple(kept), len(used))


def _suppressions(tree: Tree, source: str) -> dict[int, frozenset[str]]:
    if not source.endswith((".md", ".mdc", ".yaml", ".yml")):
        return {}
    try:
        text = canonical_text(tree.read(source), source)
    except HaloError:
        return {}  # what cannot be read is a finding of its own
    return find_suppressions(text, yaml=not source.endswith((".md", ".mdc")))
