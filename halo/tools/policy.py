"""Which calls of tools run, which are asked about, which are denied. Pure.

A policy is a seat belt, not a wall: a command line does not say all that it does, so what a command can reach
is the sandbox's to decide. Hence rules that allow are read narrowly, and rules that ask or deny widely.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from halo.records.policies import Action, PolicyRule
from halo.tools.command_lines import TooMuchError, commands, is_plain

SHELL = "shell_exec"

_STRICTEST_LAST: tuple[Action, ...] = ("allow", "ask", "deny")


def decide(policies: Iterable[tuple[PolicyRule, ...]], tool: str, arguments: Mapping[str, Any]) -> Action:
    """Return what happens to a call: the strictest that any of the policies says.

    In each policy the first rule that matches decides; without one the call is allowed.
    """
    call = _Call(tool, arguments)
    said = [_first(rules, call) for rules in policies]
    return max(said, key=_STRICTEST_LAST.index, default="allow")


def _first(rules: tuple[PolicyRule, ...], call: "_Call") -> Action:
    return next((rule.action for rule in rules if call.fits(rule)), "allow")


class _Call:
    """A call, and what its command line comes to, once somebody asks."""

    def __init__(self, tool: str, arguments: Mapping[str, Any]) -> None:
        self.tool = tool
        command = arguments.get("command") if tool == SHELL else None
        self.command = command.strip() if isinstance(command, str) else None

    def fits(self, rule: PolicyRule) -> bool:
        """Tell whether a rule speaks of this call.

        A rule with `command` allows only a plain command that fits as it is written. It asks about or denies
        a line that fits, or that might run a command that fits, or that nobody can look through.
        """
        if not fnmatchcase(self.tool, rule.tool):
            return False
        if not rule.command:
            return True
        if self.command is None:
            return False
        if rule.action == "allow":
            return self._plain and fnmatchcase(self.command, rule.command)
        return self._runs is None or any(fnmatchcase(run, rule.command) for run in self._runs)

    @cached_property
    def _plain(self) -> bool:
        return is_plain(self.command or "")

    @cached_property
    def _runs(self) -> list[str] | None:
        try:
            return commands(self.command or "")
        except TooMuchError:
            return None
