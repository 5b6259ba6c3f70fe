"""Which calls of tools run, which are asked about, which are denied. Pure.

A policy is a seat belt, not a wall: a command line does not say all that it does, so what a command can reach
is the sandbox's to decide. Hence rules that allow are read narrowly, and rules that ask or deny widely: what
a command runs that cannot be told for certain is asked about where one of those might speak of it.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal, NamedTuple

from halo.records.policies import Action, PolicyRule
from halo.tools.command_lines import TooMuchError, commands, is_plain
from halo.tools.command_readings import Reading, may_fit, readings

SHELL = "shell_exec"

_STRICTEST_LAST: tuple[Action, ...] = ("allow", "ask", "deny")


class Policy(NamedTuple):
    """Rules, and where each of them stands (`.halo/settings.yaml:5`), as far as that is known."""

    rules: tuple[PolicyRule, ...]
    places: tuple[str, ...] = ()


class Decision(NamedTuple):
    """What happens to a call, the rule that decided (None: no rule speaks of it), and where that stands.

    `unsure`: nobody can tell whether the rule speaks of it, so it is asked about.
    """

    action: Action = "allow"
    rule: PolicyRule | None = None
    place: str = ""
    unsure: bool = False


def decide(policies: Iterable[Policy], tool: str, arguments: Mapping[str, Any]) -> Decision:
    """Decide about a call: the strictest that any of the policies says.

    In each policy the first rule that matches decides, but a rule before it that might match has the call
    asked about at least; without one the call is allowed.
    """
    call = _Call(tool, arguments)
    said = [_first(policy, call) for policy in policies]
    return max(said, key=_strictness, default=Decision())


def _first(policy: Policy, call: "_Call") -> Decision:
    least = Decision()
    for number, rule in enumerate(policy.rules):
        fits = call.fits(rule)
        if fits == "no":
            continue
        place = policy.places[number] if number < len(policy.places) else ""
        if fits == "yes":
            return max(least, Decision(rule.action, rule, place), key=_strictness)
        if least.rule is None:
            least = Decision("ask", rule, place, unsure=True)
    return least


def _strictness(decision: Decision) -> int:
    return _STRICTEST_LAST.index(decision.action)


class _Call:
    """A call, and what its command line comes to, once somebody asks."""

    def __init__(self, tool: str, arguments: Mapping[str, Any]) -> None:
        self.tool = tool
        command = arguments.get("command") if tool == SHELL else None
        self.command = command.strip() if isinstance(command, str) else None

    def fits(self, rule: PolicyRule) -> Literal["yes", "no", "maybe"]:
        """Tell whether a rule speaks of this call.

        A rule with `command` allows only a plain command that fits as it is written. It asks about or denies
        a line that fits, or in which a command fits, or that nobody can look through. `maybe`: the line runs
        something that its text does not tell, and that could fit.
        """
        if not fnmatchcase(self.tool, rule.tool):
            return "no"
        if not rule.command:
            return "yes"
        if self.command is None:
            return "no"
        if rule.action == "allow":
            return "yes" if self._plain and fnmatchcase(self.command, rule.command) else "no"
        if self._runs is None or any(fnmatchcase(run, rule.command) for run in self._runs):
            return "yes"
        fitting = [reading for reading in self._readings if may_fit(reading, rule.command)]
        if any(reading.whole and reading.sure for reading in fitting):
            return "yes"
        return "maybe" if fitting else "no"

    @cached_property
    def _plain(self) -> bool:
        return is_plain(self.command or "")

    @cached_property
    def _runs(self) -> list[str] | None:
        try:
            return commands(self.command or "")
        except TooMuchError:
            return None

    @cached_property
    def _readings(self) -> list[Reading]:
        return readings(self.command or "")
