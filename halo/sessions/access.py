"""What a turn may do: the least of what was asked for, what settings allow, and what trust allows."""

from typing import NamedTuple

import msgspec

from halo.build.builder import Builder
from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.targets import Access, AgentTarget, permits
from halo.workspace.agents import read_agent
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS
from halo.workspace.settings.general import ToolSettings, read_general, read_general_of
from halo.workspace.tool_demands import changing_tools
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
    if builder.bundle is not None:
        # Nobody can trust a bundle: its layers, which would say what it asks for, are elsewhere.
        limit = "readonly"
        target = _if_bundled(builder, _with(target, limit)) or target
        return Allowed(target, limit)
    if limit != "readonly" and not grants.changes and (tools := _changing(tree, target.agent)):
        notice = (
            f"note: {target.agent} only reads here, and has no {', '.join(tools)}: what the workspace asks "
            "for now is not allowed yet; to see and allow it: halo trust"
        )
        return Allowed(_with(target, "readonly"), "readonly", (notice,))
    return Allowed(_with(target, limit), limit)


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
        shell_seconds=read_general(tree).tools.shell_seconds,
    )


def _joined(own: tuple[str, ...], asked: tuple[str, ...], grants: Grants, setting: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *(value for value in asked if grants.opens(setting, value)))))


def _with(target: AgentTarget, access: Access) -> AgentTarget:
    return target if target.access == access else msgspec.structs.replace(target, access=access)


def _if_bundled(builder: Builder, target: AgentTarget) -> AgentTarget | None:
    return target if builder.bundle is not None and builder.bundle.artifact(target) is not None else None


def _changing(tree: Tree, agent_id: str) -> tuple[str, ...]:
    try:
        return changing_tools(read_agent(tree, agent_id))
    except HaloError:
        return ()  # whoever compiles it says what is wrong
