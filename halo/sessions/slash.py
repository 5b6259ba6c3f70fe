"""`/skill-id arguments`: a user invokes a skill that the agent lists."""

import difflib
import html
import re
from collections.abc import Callable
from typing import NamedTuple

from halo.errors import UsageError
from halo.records.artifacts import SkillCommand
from halo.sessions.commands.table import COMMANDS
from halo.sessions.scopes import enclose

# A word that could be an id, and what follows it. `/etc/hosts` and `/usr` with a dot are paths.
_COMMAND = re.compile(r"/(?P<id>[A-Za-z0-9_][A-Za-z0-9_-]{0,99})(?:\s+(?P<arguments>.*))?\Z", re.DOTALL)

_NOTE = "The user invoked this skill. Follow it now."


class Slash(NamedTuple):
    """What a message that begins with `/` comes to.

    `skill` is the invoked one, empty where the message is plain text; `remark` says what it may have meant.
    """

    skill: str = ""
    arguments: str = ""
    remark: str = ""


def read_slash(
    text: str, commands: tuple[SkillCommand, ...], exists: Callable[[str], bool] = lambda _: False
) -> Slash:
    """Read the beginning of a user's message. Raises `UsageError` for a skill that is refused.

    `commands` are the skills that the agent lists; `exists` tells whether another name is a skill at all.
    """
    match = _COMMAND.match(text)
    if match is None:
        return Slash()
    name = match["id"]
    for command in commands:
        if command.id == name:
            if command.refused:
                raise UsageError(
                    f"/{name} cannot be used: {command.refused}",
                    hint="a space before the slash sends it as text",
                )
            return Slash(name, (match["arguments"] or "").strip())
    if name.lower() in COMMANDS:
        return Slash(
            remark=f"note: /{name} was sent as text: a command of Halo begins what a person types to it"
        )
    if exists(name):
        return Slash(remark=f"note: /{name} is a skill that this agent does not list; it was sent as text")
    skills = [c.id for c in commands if not c.refused]
    close = difflib.get_close_matches(name, skills, n=1, cutoff=0.6) or difflib.get_close_matches(
        name, list(COMMANDS), n=1, cutoff=0.7
    )
    if not close:
        return Slash()
    what = "skill of this agent" if close[0] in skills else "command"
    return Slash(remark=f"note: /{name} is no {what} and was sent as text; did you mean /{close[0]}?")


def skill_block(skill: str, text: str) -> str:
    """Put the text of an invoked skill between tags, so that the model knows what it is."""
    return enclose("skill", f'id="{skill}" note="{html.escape(_NOTE)}"', text)
