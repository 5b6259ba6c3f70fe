"""`halo why`: where a line of a prompt comes from, and who wrote it."""

import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import agent_target, open_builder, target_options, workspace_option

if TYPE_CHECKING:
    from halo.records.targets import Access, Mode, Platform


@click.command("why")
@workspace_option
@click.option("-a", "--agent", "named", metavar="AGENT", help="Whose prompt, instead of the first word.")
@target_options
@click.option("-E", "--regex", is_flag=True, help="PATTERN is a regular expression.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or one JSON object with every match.",
)
@click.argument("words", nargs=-1, metavar="AGENT PATTERN|LINE")
def command(
    *,
    workspace: str | None,
    named: str | None,
    role: str,
    directory: str | None,
    mode: "Mode",
    platform: "Platform",
    access: "Access",
    profile: str,
    regex: bool,
    form: str,
    words: tuple[str, ...],
) -> int:
    """Say where lines of AGENT's prompt come from: layer, line, and who wrote it (git blame).

    PATTERN is text in any case, and any white space between its words. A number such as 41, or 41-45, is a
    line of the prompt; with -E it is a pattern. Exits with 1 when no line matches, and says where the text
    stands instead.
    """
    from halo.build.trace.why import explain

    agent, wanted = _asked(named, words)
    builder = open_builder(workspace)
    target = agent_target(
        builder, agent, role, directory, mode=mode, platform=platform, access=access, profile=profile
    )
    answer = explain(builder, target, wanted, regex=regex)
    if form == "json":
        from halo.files.canonical import readable_json

        sys.stdout.write(readable_json(answer).decode())
    else:
        from halo.cli.why_text import as_text

        sys.stdout.write(as_text(answer, wanted))
    return 0 if answer.lines else 1


def _asked(named: str | None, words: tuple[str, ...]) -> tuple[str, str]:
    """Return the agent and what is looked for: both are words, or the agent is `named` by its option."""
    asked = words if named is None else (named, *words)
    if len(asked) == 2:
        return asked[0], asked[1]
    if named is not None and len(words) > 1:
        raise click.UsageError("the agent is named by -a; one more word is what to look for, in quotes")
    if len(asked) > 1:
        raise click.UsageError("too many words; a PATTERN of several words stands in quotes")
    raise click.UsageError("say whose prompt and what to look for: halo why AGENT PATTERN")
