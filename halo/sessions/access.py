"""What a turn may do: the least of what was asked for, what settings allow, and what trust allows."""

from typing import NamedTuple

import msgspec

from halo.build.builder import Builder
from halo.build.bundled import Bundle
from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.targets import Access, AgentTarget, permits
from halo.workspace.agents import read_agent
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import ToolSettings, read_general_of
from halo.workspace.tool_demands import changing_tools, opening_demands, seconds_text
from halo.workspace.trust import Grants


class Allowed(NamedTuple):
    """The target that a turn runs, what its tools may do, and what the user should know about it.

    The access of the target is what its prompt speaks of. `access` is less in an unpacked bundle that has no
    prompt for less: then tools refuse.
    """

    target: AgentTarget
    access: Access
    notices: tuple[str, ...] = ()


def allow(builder: Builder, tree: Tree, grants: Grants, target: AgentTarget) -> Allowed:
    """Decide about a turn of `target`; its access is what was asked for."""
    limit = least(target.access, *(read_general_of(tree, source).tools.access for source in _SETTINGS))
    if (bundle := builder.bundle) is not None:
        # Nobody can trust a bundle: its layers, which would say what it asks for, are elsewhere.
        return Allowed(_bundled(bundle, target), "readonly")
    tools = _changing(tree, target.agent) if limit != "readonly" else ()
    notices = _unopened(tree, grants) if tools else ()
    if tools and not grants.changes:
        notice = (
            f"note: {target.agent} only reads here, and has no {', '.join(tools)}: what the workspace asks "
            "for now is not allowed yet; to see and allow it: halo trust"
        )
        return Allowed(_with(target, "readonly"), "readonly", (notice, *notices))
    return Allowed(_with(target, limit), limit, notices)


_SETTINGS = (GLOBAL_SETTINGS, WORKSPACE_SETTINGS)


def least(first: Access, *others: Access | None) -> Access:
    """Return the least of access levels; None says nothing."""
    for other in others:
        if other is not None and permits(first, other):
            first = other
    return first


def refused(artifact: Artifact, access: Access) -> tuple[str, ...]:
    """Say which tools a prompt offers although `access` does not permit them, as one in a bundle may."""
    names = ", ".join(spec.name for spec in artifact.manifest.tools if not permits(access, spec.access))
    return (f"note: {names} will be refused: agents of a bundle only read",) if names else ()


def tool_settings(tree: Tree, grants: Grants) -> ToolSettings:
    """Return `general.tools` as it counts for a turn: the workspace opens what the user allowed it to."""
    machine, workspace = (read_general_of(tree, source).tools for source in _SETTINGS)
    return ToolSettings(
        access=least("full", machine.access, workspace.access),
        network=machine.network or (workspace.network and grants.opens("network", "true")),
        private_hosts=_joined(machine.private_hosts, workspace.private_hosts, grants, "private_hosts"),
        writable=_joined(machine.writable, workspace.writable, grants, "writable"),
        hidden=tuple(dict.fromkeys((*machine.hidden, *workspace.hidden))),
        shell_seconds=_seconds(machine, workspace, grants),
    )


def _seconds(machine: ToolSettings, workspace: ToolSettings, grants: Grants) -> float:
    """Return how long a command may run: a workspace shortens it at once, and lengthens it when trusted."""
    asked = workspace.shell_seconds
    if asked is None:
        return machine.seconds
    return asked if grants.opens("shell_seconds", seconds_text(asked)) else min(asked, machine.seconds)


def _unopened(tree: Tree, grants: Grants) -> tuple[str, ...]:
    """Say what `general.tools` of the workspace would open, and does not because nobody allowed it."""
    machine, workspace = (read_general_of(tree, source).tools for source in _SETTINGS)
    ignored: dict[str, list[str]] = {}
    for setting, value in opening_demands(workspace, machine):
        if not grants.opens(setting, value) and not _is_given(machine, setting, value):
            ignored.setdefault(setting, []).append(value)
    document = read_settings(tree, WORKSPACE_SETTINGS)
    return tuple(
        f"note: .halo/settings.yaml:{document.line('general', 'tools', setting)}: general.tools.{setting} "
        f"({', '.join(values)}) is ignored, for nobody has allowed it yet; to see and allow it: halo trust"
        for setting, values in ignored.items()
    )


def _is_given(machine: ToolSettings, setting: str, value: str) -> bool:
    """Tell whether the machine's own settings open it anyway."""
    match setting:
        case "network":
            return machine.network
        case "private_hosts":
            return value in machine.private_hosts
        case "writable":
            return value in machine.writable
        case _:
            return False  # it is asked for because the machine's is less


def _joined(own: tuple[str, ...], asked: tuple[str, ...], grants: Grants, setting: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *(value for value in asked if grants.opens(setting, value)))))


def _with(target: AgentTarget, access: Access) -> AgentTarget:
    return target if target.access == access else msgspec.structs.replace(target, access=access)


def _bundled(bundle: Bundle, target: AgentTarget) -> AgentTarget:
    """Return the target of a bundle with the least access: as a rule it has the full one alone."""
    levels: tuple[Access, ...] = ("readonly", target.access, "full")
    found = (_with(target, level) for level in levels)
    return next((one for one in found if bundle.artifact(one) is not None), target)


def _changing(tree: Tree, agent_id: str) -> tuple[str, ...]:
    try:
        return changing_tools(read_agent(tree, agent_id))
    except HaloError:
        return ()  # whoever compiles it says what is wrong
