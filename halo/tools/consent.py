"""Holds a call against the policies, and asks the user where they say so."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from halo.tools.base import brief
from halo.tools.policy import SHELL, Decision, Policy, decide


class Question(NamedTuple):
    """What the user is asked: whether `tool` may run with these arguments.

    `text` is the command line of `shell_exec`, else the arguments as JSON: a model's words, so whoever shows
    it makes it visible first. `why` names the rule that has it asked about.
    """

    tool: str
    text: str
    why: str = ""


# Asks the user; whoever cannot ask anybody answers False.
Ask = Callable[[Question], Awaitable[bool]]

# Given a tool's name and its checked arguments, returns why the call is not run; None: it is.
Gate = Callable[[str, Mapping[str, Any]], Awaitable[str | None]]

# The rule comes before the call: who shows only the beginning shows what decided.
_DENIED = (
    "{tool} was not run: {why}. The call: {call}. It stays forbidden: do not try it again or in another way. "
    "Do without it, or tell the user what you would need it for."
)
_NOBODY = (
    "{tool} was not run: {why}. The call: {call}. It needs the user's consent, and nobody is there to give "
    "it. Do not try it again. Do without it, or say at the end what is left for the user to do."
)
_REFUSED = (
    "{tool} was not run: {why}. The call: {call}. It needs the user's consent; the user was asked and said "
    "no. Do not try it again or in another way. Go on without it, or ask what to do instead."
)


def gate(policies: Iterable[Policy], ask: Ask | None) -> Gate:
    """Return what decides about every call of a turn; `ask` is None where nobody can be asked."""
    import asyncio

    one_at_a_time = asyncio.Lock()
    all_policies = tuple(policies)

    async def admitted(tool: str, arguments: Mapping[str, Any]) -> str | None:
        decision = decide(all_policies, tool, arguments)
        if decision.action == "allow":
            return None
        text, why = _text(tool, arguments), _why(decision)
        if decision.action == "deny":
            return _DENIED.format(tool=tool, why=why, call=brief(text))
        if ask is None:
            return _NOBODY.format(tool=tool, why=why, call=brief(text))
        async with one_at_a_time:
            agreed = await ask(Question(tool, text, why))
        return None if agreed else _REFUSED.format(tool=tool, why=why, call=brief(text))

    return admitted


def _text(tool: str, arguments: Mapping[str, Any]) -> str:
    if tool == SHELL:
        return str(arguments.get("command", ""))
    return json.dumps(arguments, ensure_ascii=False)


def _why(decision: Decision) -> str:
    """Name the rule that decided, and where it stands."""
    rule = decision.rule
    if rule is None:
        raise AssertionError("a call that no rule speaks of is allowed")
    words = brief(" ".join(filter(None, (rule.action, rule.tool, rule.command))))
    place = f" ({brief(decision.place)})" if decision.place else ""
    if decision.unsure:
        return f"what it runs cannot be told for certain, and the rule `{words}`{place} may speak of it"
    return f"the rule `{words}`{place} speaks of it"
