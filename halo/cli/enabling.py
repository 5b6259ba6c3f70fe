"""`halo agent` and `halo skill`: what there is, and switching it off and on for a workspace."""

import os
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.files.tree import Tree
    from halo.workspace.settings.disabling import Kind


def _group(kind: "Kind") -> click.Group:
    word = kind.removesuffix("s")

    @click.group(word, help=f"List {kind}; switch one off or on for a workspace.")
    def group() -> None:
        return

    @group.command("list", help=f"List the {kind} of a workspace: id, scope, state, description.")
    @workspace_option
    def list_(*, workspace: str | None) -> None:
        from halo.files.visible import visible

        rows = _rows(open_builder(workspace).places.tree(), kind)
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
            click.echo(visible("  ".join([*cells, row[3]]).rstrip()))

    hidden = "It vanishes from rosters" if kind == "agents" else "It vanishes from the lists of skills"

    @group.command(
        "disable",
        help=f"Switch off the {word} NAME (an id, or workspace:id, global:id, builtin:id).\n\n"
        f"{hidden} and is refused wherever it is asked for. Recorded in the workspace's settings.yaml.",
    )
    @workspace_option
    @click.argument("name")
    def disable(*, workspace: str | None, name: str) -> None:
        _switch(open_builder(workspace), kind, name, off=True)

    @group.command("enable", help=f"Switch the {word} NAME on again.")
    @workspace_option
    @click.argument("name")
    def enable(*, workspace: str | None, name: str) -> None:
        _switch(open_builder(workspace), kind, name, off=False)

    return group


agent = _group("agents")
skill = _group("skills")


def _rows(tree: "Tree", kind: "Kind") -> list[tuple[str, str, str, str]]:
    from halo.errors import HaloError
    from halo.workspace.agents import read_agent
    from halo.workspace.ids import list_ids, serving_folder
    from halo.workspace.settings.disabling import is_disabled
    from halo.workspace.settings.general import read_general
    from halo.workspace.skills.reading import read_skill

    general = read_general(tree)
    rows: list[tuple[str, str, str, str]] = []
    for name in list_ids(tree, kind):
        scope = state = ""
        try:
            scope = serving_folder(tree, kind, name).scope
            state = "disabled" if is_disabled(general, kind, name, scope) else ""
            found = read_agent(tree, name) if kind == "agents" else read_skill(tree, name)
            text = found.description
        except HaloError as error:
            state, text = "broken", str(error).partition("\n")[0]
        rows.append((name, scope, state, text))
    return rows


def _switch(builder: "Builder", kind: "Kind", name: str, *, off: bool) -> None:
    from halo.files.atomic import replace_file
    from halo.files.locks import hold
    from halo.files.regular import refuse_links
    from halo.workspace.ids import serving_folder
    from halo.workspace.settings.disabling import parse_entry
    from halo.workspace.settings.editing import switch
    from halo.workspace.settings.files import WORKSPACE_SETTINGS
    from halo.workspace.settings.general import read_general

    places = builder.places
    scope, identity = parse_entry(name)
    if off:
        serving_folder(places.tree(), kind, identity)  # an unknown one is answered with near misses
    path = os.path.join(places.halo, "settings.yaml")
    refuse_links(places.halo, "settings.yaml")
    with hold(os.path.join(places.halo, "build", "settings.lock"), what="settings.yaml", timeout=10):
        data = _content(path)
        changed = switch(data, kind, name, off=off, source=WORKSPACE_SETTINGS)
        if changed != data:
            replace_file(path, changed)
    word = kind.removesuffix("s")
    general = read_general(places.tree())
    left = general.disabled.agents if kind == "agents" else general.disabled.skills
    still = [entry for entry in left if parse_entry(entry)[1] == identity]
    if not off and still:
        click.echo(f"{word} {identity} is still disabled as {', '.join(still)}", err=True)
    what = "disabled" if off else "enabled"
    same = " already" if changed == data else ""
    click.echo(f"{word} {identity}{f' of scope {scope}' if scope else ''} is{same} {what}", err=True)


def _content(path: str) -> bytes:
    from halo.files.regular import read_regular
    from halo.files.tree import DEFAULT_LIMIT

    try:
        return read_regular(path, DEFAULT_LIMIT)
    except FileNotFoundError:
        return b""
