"""Holds a call against the policies, and asks the user where they say so."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from halo.records.policies import PolicyRule
from halo.tools.policy import SHELL, decide


class Question(NamedTuple):
    """What the user is asked: whether `tool` may run with these arguments.

    `text` is the command line of `shell_exec`, else the arguments as JSON: a model's words, so whoever shows
    it makes it visible first.
    """

    tool: str
    text: str


# Asks the user; whoever cannot ask anybody answers False.
Ask = Callable[[Question], Awaitable[bool]]

# Given a tool's name and its checked arguments, returns why the call is not run; None: it is.
Gate = Callable[[str, Mapping[str, Any]], Awaitable[str | None]]

_DENIED = (
    "{tool} was not run: this call is forbidden here. It stays forbidden: do not try it again or in another "
    "way. Do without it, or tell the user what you would need it for."
)
_NOBODY = (
    "{tool} was not run: this call needs the user's consent, and nobody is there to give it. Do not try it "
    "again. Do without it, or say at the end what is left for the user to do."
)
_REFUSED = (
    "{tool} was not run: the user was asked and said no. Do not try it again or in another way. Go on "
    "without it, or ask what to do instead."
)


def gate(policies: tuple[tuple[PolicyRule, ...], ...], ask: Ask | None) -> Gate:
    """Return what decides about every call of a turn; `ask` is None where nobody can be asked."""
    import asyncio

    one_at_a_time = asyncio.Lock()

    async def admitted(tool: str, arguments: Mapping[str, Any]) -> str | None:
        match decide(policies, tool, arguments):
            case "allow":
                return None
            case "deny":
                return _DENIED.format(tool=tool)
        if ask is None:
            return _NOBODY.format(tool=tool)
        async with one_at_a_time:
            agreed = await ask(_question(tool, arguments))
        return None if agreed else _REFUSED.format(tool=tool)

    return admitted


def _question(tool: str, arguments: Mapping[str, Any]) -> Question:
    if tool == SHELL:
        return Question(tool, str(arguments.get("command", "")))
    return Question(tool, json.dumps(arguments, ensure_ascii=False))
