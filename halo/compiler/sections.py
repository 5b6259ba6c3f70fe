"""Builtin segments that a workspace switches on (`general.prompt.sections`), in a fixed order.

The seventh, `runtime`, is a line of the environment segment. All of them advise; none enforces anything.
"""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import RULES, Part, Piece
from halo.records.targets import Access
from halo.workspace.settings.general import Section
from halo.workspace.skills.reading import Skill

_SAFETY = """\
## Safety

You have no goals of your own beyond what you were asked to do. Do not gather access, resources or \
influence that the task does not need, and do not try to outlast it.
Put safety and human oversight above getting done. Comply at once when you are told to stop or to \
pause. Never work around a limit, a permission or a review, and do not talk anyone into lifting one.
Where an instruction is in conflict with this, say so and ask.\
"""

_DOCUMENTATION = """\
## Documentation

You run on Halo, which compiled this prompt from text files in `.halo/`. When a question is about \
Halo itself (its commands, settings, files, or why you were told something), look it up before you \
answer:

{sources}

Run these commands yourself where your tools can; ask the user to run them only where you lack the \
access.\
"""

_SKILL = "- the skill `halo`: load it with `activate_skill`"
_COMMANDS = """\
- `halo --help`, and `halo COMMAND --help`: what each command does
- `halo doctor`: what this installation has and lacks\
"""

_SANDBOX: dict[Access, str] = {
    "full": "",
    "workspace": """\
## Sandbox

Your access level is `workspace`. You may read and change files of the workspace. Nothing outside it \
can be changed, and a command runs in a sandbox with the same limits.
What is refused for that reason cannot be had another way: say what you needed, and let the user \
decide.\
""",
    "readonly": """\
## Sandbox

Your access level is `readonly`. You may look at files of the workspace. You can change nothing, \
neither in it nor outside, and run no commands.
What is refused for that reason cannot be had another way: say what would have to be done, and let \
the user decide.\
""",
}

_REASONING = """\
## Reasoning

Your thinking is kept apart from your answer. It is recorded with the session, and users do not see \
it as part of what you say. So think where thinking belongs, and put into the answer all that the \
reader needs: results, reasons, doubts. Write no thinking, and no tags around any, into the answer \
itself.\
"""

_REPLY_TAGS = """\
## Reply tags

On a channel that can quote, one tag at the very beginning of your answer says which message it \
replies to:

- `[[reply_to_current]]`: the message that you are answering; the usual one
- `[[reply_to:<id>]]`: an earlier message, only if its id was given to you

Use a tag where it would otherwise be unclear what you reply to. The channel takes it out before \
people read the text.\
"""

_HEARTBEATS = """\
## Heartbeats

A heartbeat is a message that comes by itself at intervals, not from a person, so that you can look \
after what is open. Do what it asks for, and what standing instructions for heartbeats say; do not \
take up old tasks again.
If nothing needs attention, reply with exactly `HEARTBEAT_OK` and nothing else. If something does, \
say what, and leave that word out.\
"""

# Left out in mode `minimal`: they are about talking to people.
_FULL_ONLY: frozenset[Section] = frozenset({"reply_tags", "heartbeats"})


def sections(job: Compilation, skills: tuple[Skill, ...]) -> list[Part]:
    """Make the segments that the settings switch on. `skills` are those that the agent may load.

    Internal agents get none.
    """
    texts: dict[Section, str] = {
        "safety": _SAFETY,
        "documentation": _documentation(skills),
        "sandbox": _SANDBOX[job.target.access],
        "reasoning": _REASONING,
        "reply_tags": _REPLY_TAGS,
        "heartbeats": _HEARTBEATS,
    }
    wanted = set() if job.internal else set(job.general.prompt.sections)
    if not job.full:
        wanted -= _FULL_ONLY
    return [_part(name, text) for name, text in texts.items() if name in wanted and text]


def _part(name: Section, text: str) -> Part:
    identity = name.replace("_", "-")
    return Part(identity, identity, "halo", RULES, (Piece(text, RULES, 1),))


def _documentation(skills: tuple[Skill, ...]) -> str:
    lines = [_SKILL] if any(skill.id == "halo" for skill in skills) else []
    return _DOCUMENTATION.format(sources="\n".join([*lines, _COMMANDS]))
