"""Rules about policies: which of their rules can never match a call."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from halo.checks.subject import Subject
from halo.errors import HaloError, near_miss_hint
from halo.records.diagnostics import Diagnostic
from halo.records.policies import PolicyRule
from halo.records.tools import BUILTIN_TOOLS
from halo.workspace.agents import read_agent
from halo.workspace.mcp.names import PREFIX
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import read_general_of
from halo.workspace.yamldoc import YamlDocument

_TOOLS = [spec.name for spec in BUILTIN_TOOLS]
_SHELL = "shell_exec"


def idle_rules(subject: Subject) -> Iterator[Diagnostic]:
    """H514: rules for tools that do not exist or have no command, and those after a rule that takes all."""
    for source in (GLOBAL_SETTINGS, WORKSPACE_SETTINGS):
        rules = read_general_of(subject.tree, source).tools.policy
        if rules:
            yield from _idle(rules, read_settings(subject.tree, source), ("general", "tools", "policy"))
    for name in subject.agent_ids():
        try:
            agent = read_agent(subject.tree, name)
        except HaloError:
            continue  # said as what it is
        if agent.scope != "builtin":
            yield from _idle(agent.config.policy, agent.document, ("policy",))


def _idle(
    rules: tuple[PolicyRule, ...], document: YamlDocument, path: tuple[str, ...]
) -> Iterator[Diagnostic]:
    for number, rule in enumerate(rules):
        why = _never_matches(rule) or _after_another(rule, rules[:number])
        if why:
            line = document.line(*path, number)
            yield Diagnostic(
                "idle-policy-rule", "warning", f"this rule never matches: {why}", document.source, line
            )


def _never_matches(rule: PolicyRule) -> str:
    if not _is_pattern(rule.tool) and rule.tool not in _TOOLS and not rule.tool.startswith(PREFIX):
        return f"there is no tool {rule.tool!r}; {near_miss_hint(rule.tool, _TOOLS)}"
    if rule.command and not fnmatchcase(_SHELL, rule.tool):
        return f"{rule.tool} has no command line, only {_SHELL} has"
    return ""


def _after_another(rule: PolicyRule, before: tuple[PolicyRule, ...]) -> str:
    for number, earlier in enumerate(before, 1):
        same = earlier.tool in ("*", rule.tool)
        covers = same or (not _is_pattern(rule.tool) and fnmatchcase(rule.tool, earlier.tool))
        if covers and not earlier.command:
            return f"rule {number} of the list ({earlier.action} {earlier.tool}) takes every call before it"
    return ""


def _is_pattern(tool: str) -> bool:
    return any(c in tool for c in "*?[")
