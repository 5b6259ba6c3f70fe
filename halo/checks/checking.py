"""Runs every rule over a workspace, and takes out what its authors switched off."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from halo.checks import (
    agent_rules,
    cost_rules,
    link_rules,
    policy_rules,
    session_rules,
    skill_rules,
    text_rules,
    workspace_rules,
)
from halo.checks.broken import broken
from halo.checks.subject import Subject
from halo.checks.switched_off import without_suppressed
from halo.errors import HaloError
from halo.models.prompt_counts import Counter, estimate_prompt
from halo.records.diagnostics import Diagnostic


class Report(NamedTuple):
    """What was found, by place; `suppressed` is how many findings were switched off."""

    findings: tuple[Diagnostic, ...]
    suppressed: int

    @property
    def failed(self) -> bool:
        """Whether something was found that is more than a remark."""
        return any(finding.severity != "info" for finding in self.findings)


_RULES: tuple[Callable[[Subject], Iterator[Diagnostic]], ...] = (
    agent_rules.unused,
    agent_rules.lists,
    agent_rules.speechless,
    agent_rules.unresolved,
    workspace_rules.models,
    workspace_rules.endpoints,
    workspace_rules.collisions,
    workspace_rules.settings_values,
    workspace_rules.server_secrets,
    workspace_rules.misfits,
    workspace_rules.missing_context,
    policy_rules.idle_rules,
    session_rules.shared_scope,
    session_rules.links,
    session_rules.idle_resets,
    link_rules.index_links,
    link_rules.index_paths,
    skill_rules.specification,
    skill_rules.unresolved,
    skill_rules.hidden_by_command,
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
    found.extend(broken(error, f"{target.label}: ") for target, error in subject.failed)
    for rule in _RULES:
        try:
            found.extend(rule(subject))
        except HaloError as error:
            found.append(broken(error))
    if budget is not None:
        found.extend(cost_rules.over_budget(subject, budget, count))
    kept, suppressed = without_suppressed(
        subject.tree, _once(found), (origin.source for origin in subject.origins())
    )
    return Report(tuple(sorted(kept, key=_order)), suppressed)


def _once(found: list[Diagnostic]) -> list[Diagnostic]:
    """Leave out what is said twice: of a layer by each of its targets, or by a rule and a compile error."""
    said = {(d.source, d.line, d.message) for d in found if d.code != "does-not-compile"}
    return [
        d
        for d in dict.fromkeys(found)
        if d.code != "does-not-compile" or (d.source, d.line, d.message) not in said
    ]


def _order(finding: Diagnostic) -> tuple[str, int, str, str]:
    return finding.source, finding.line, finding.code, finding.message
