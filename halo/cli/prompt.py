"""`halo prompt`: exactly what a model is told, and why."""

import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import AgentCommand, agent_target, open_builder, target_options, workspace_option
from halo.files.visible import visible

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.models.prompt_counts import PromptCounts
    from halo.records.artifacts import Artifact, Manifest
    from halo.records.targets import Access, Mode, Platform


@click.command("prompt", cls=AgentCommand)
@workspace_option
@click.option("-a", "--agent", default="default", show_default=True, help="Whose prompt.")
@target_options
@click.option(
    "--layers", is_flag=True, help="A table instead: segment, scope, file, lines, tokens, share, stability."
)
@click.option("--ask", "asks", is_flag=True, help="With --layers: the provider's own count as well.")
@click.option("--blame", is_flag=True, help="Before each line: commit, date and author of its layer's line.")
@click.option("--fill", "filled", is_flag=True, help="Fill the slots as a turn would.")
@click.option("--frozen", is_flag=True, help="Refuse a stale artifact instead of building it.")
def command(
    *,
    workspace: str | None,
    agent: str,
    role: str,
    directory: str | None,
    mode: "Mode",
    platform: "Platform",
    access: "Access",
    profile: str,
    layers: bool,
    asks: bool,
    blame: bool,
    filled: bool,
    frozen: bool,
) -> None:
    """Print the assembled prompt of an agent, and nothing else, on stdout.

    Slots such as {{workspace_root}} are printed as they are written; a turn fills them in memory.
    """
    if blame and (layers or filled):
        raise click.UsageError("--blame shows the whole prompt, unfilled; leave --layers and --fill away")
    if layers and filled:
        raise click.UsageError("--layers counts the slots as they are written; leave --fill away")
    if asks and not layers:
        raise click.UsageError("--ask adds a row to the table of --layers")
    builder = open_builder(workspace)
    target = agent_target(
        builder, agent, role, directory, mode=mode, platform=platform, access=access, profile=profile
    )
    artifact = builder.frozen(target) if frozen else builder.ensure(target)
    if layers:
        from halo.cli.tokens import ask, offline_counter

        counts = offline_counter()(artifact.prompt, artifact.manifest, parts=True)
        text = layer_table(artifact.manifest, counts, ask(builder, artifact, target) if asks else None)
    elif blame:
        from halo.cli.blame_text import blamed_prompt

        text = blamed_prompt(builder.places, artifact)
    else:
        text = fill_prompt(builder, artifact) if filled else artifact.prompt
    sys.stdout.write(text)
    sys.stdout.flush()
    for diagnostic in artifact.manifest.diagnostics:
        click.echo(str(diagnostic), err=True)


def fill_prompt(builder: "Builder", artifact: "Artifact") -> str:
    """Fill the slots of an artifact as a turn that starts now would."""
    import os
    import time

    from halo.runner.slots import fill
    from halo.sessions.ids import timestamp
    from halo.sessions.machine import this_machine
    from halo.sessions.values import Moment, slot_values
    from halo.workspace.trust import read_grants

    places = builder.places
    tree = places.tree()
    machine = this_machine(artifact.manifest.slots)
    moment = Moment.of(artifact, places.workspace, timestamp(time.time_ns()), machine)
    grants = read_grants(tree, places.workspace, places.home)
    values, warnings = slot_values(artifact.manifest.slots, moment, tree, os.environ, grants)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return fill(artifact, values).text


def layer_table(manifest: "Manifest", counts: "PromptCounts", asked: int | None = None) -> str:
    """Lay out segments, few-shots and tool schemas: what each is, where it comes from, and what it costs.

    The first line names the target; `asked` is the provider's own count of a whole request.
    """
    total = counts.total or 1
    rows: list[tuple[str, ...]] = [
        ("segment", "scope", "file", "lines", f"tokens ({counts.tokenizer})", "share", "")
    ]
    rows.extend(
        (
            segment.id,
            segment.scope,
            segment.source,
            f"{segment.first_line}-{segment.last_line}",
            *_cost(tokens, total),
            "stable" if segment.stability == "static" else "volatile",
        )
        for segment, tokens in zip(manifest.segments, counts.segments, strict=True)
    )
    rows.extend(_few_shot_rows(manifest, counts, total))
    if counts.tools:
        tools = f"{len(manifest.tools)} tool{'s' if len(manifest.tools) > 1 else ''}"
        rows.append(("tool schemas", "", "", "", *_cost(counts.tools, total), tools))
    prefix = f"{counts.static_prefix:,} in the cached prefix"
    rows.append(("total", "", "", "", f"{counts.total:,}", "", prefix))
    if asked is not None and manifest.runtime is not None:
        provider = manifest.runtime.binding.provider
        remark = f"by {provider}'s own count, with a message of one character"
        rows.append(("request", "", "", "", f"{asked:,}", "", remark))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = [manifest.target.label]
    for row in rows:
        cells = [
            cell.rjust(widths[i]) if i in (3, 4, 5) else cell.ljust(widths[i])
            for i, cell in enumerate(row[:6])
        ]
        lines.append(visible("  ".join([*cells, row[6]]).rstrip()))
    return "\n".join(lines) + "\n"


def _few_shot_rows(manifest: "Manifest", counts: "PromptCounts", total: int) -> list[tuple[str, ...]]:
    """Make a row of each file of few-shots. They are messages, so they have no lines in the prompt."""
    files: dict[tuple[str, str], list[int]] = {}
    for source, tokens in zip(manifest.few_shot_sources, counts.few_shots, strict=True):
        files.setdefault((source.source, source.scope), []).append(tokens)
    return [
        (
            f"fewshots/{file.rsplit('/', 1)[1]}",
            scope,
            file,
            "",
            *_cost(sum(tokens), total),
            f"{len(tokens)} messages",
        )
        for (file, scope), tokens in files.items()
    ]


def _cost(tokens: int, total: int) -> tuple[str, str]:
    return f"{tokens:,}", f"{100 * tokens / total:.0f} %"
