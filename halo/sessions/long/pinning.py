"""A pinned session: its turns run from one artifact, whatever the layers say by now."""

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from halo.build.builder import Builder
from halo.build.store import Store
from halo.errors import ArtifactError, HaloError, ModelFileError, UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.session_events import SessionChanged
from halo.records.targets import Access, AgentTarget, SkillTarget, Target, permits
from halo.records.tools import LISTABLE_TOOLS
from halo.sessions.access import Allowed, least
from halo.sessions.derived import write_derived
from halo.sessions.folder import OpenSession
from halo.workspace.agents import Agent, read_agent
from halo.workspace.demands import names_a_file
from halo.workspace.models.choice import choose_model
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.settings.general import read_general, read_general_of
from halo.workspace.tool_demands import changing_tools

_UNPIN = "halo session unpin SESSION; the next turn runs from the fresh artifact"
_SHORTEST = 6  # digits that name an artifact


class Pinned(NamedTuple):
    """What a turn runs from in the place of the fresh artifact, and what its tools may do."""

    artifact: Artifact
    access: Access
    notices: tuple[str, ...] = ()


def pinned_artifact(builder: Builder, tree: Tree, identity: str, allowed: Allowed) -> Pinned:
    """Load the artifact that a session is pinned to. Raises `ArtifactError` where it is not here any more.

    It may do no more than an artifact of today: the tools that the agent was allowed later on, and not those
    that it has lost since; the rules of today hold beside its own.
    """
    store, target = builder.store, allowed.target
    try:
        artifact = store.load(identity) if store.keep(identity) else None
    except ArtifactError as error:
        raise ArtifactError(
            f"the session is pinned to artifact {identity[:12]}, which cannot be used: {error.message}",
            hint=_UNPIN,
        ) from error
    if artifact is None:
        raise ArtifactError(
            f"the session is pinned to artifact {identity[:12]}, which is not here any more",
            hint=_UNPIN,
        )
    check_agent(artifact, target.agent)
    _check_model_file(artifact, tree, target)
    notices = _of_another_model(artifact, target)
    agent = _agent(tree, target.agent)
    access = least(allowed.access, artifact.runtime.access)
    lost = _lost_tools(artifact, agent) if permits(access, "workspace") else ()
    if lost:
        access = "readonly"
        notices += (
            f"note: the pinned artifact only reads here: {target.agent} has no {', '.join(lost)} by now",
        )
    refused = [s.name for s in artifact.manifest.tools if not permits(access, s.access)]
    if refused and not lost:
        notices += (f"note: {', '.join(refused)} will be refused: this turn has {access} access",)
    return Pinned(_with_policies(artifact, tree, agent), access, notices)


def check_agent(artifact: Artifact, agent_id: str) -> None:
    """Raise `UsageError` for an artifact that is not this agent's."""
    target = artifact.manifest.target
    if not isinstance(target, AgentTarget) or target.agent != agent_id:
        raise UsageError(
            f"artifact {artifact.id[:12]} is of {target.label}, and the session is with agent {agent_id!r}"
        )


def skills_of(
    artifact: Artifact, get: Callable[[Target], Artifact], *, pinned: bool
) -> tuple[dict[str, Artifact], tuple[str, ...]]:
    """Return the skills of a turn as they are today; one that a pinned artifact knows may be gone."""
    found: dict[str, Artifact] = {}
    notices: list[str] = []
    for skill in artifact.manifest.skills:
        try:
            found[skill.id] = get(SkillTarget(skill.id))
        except UnknownNameError:
            if not pinned:
                raise
            notices.append(f"note: the pinned artifact knows skill {skill.id}, which is not there any more")
    return found, tuple(notices)


def pin(builder: Builder, session: OpenSession, named: str, by: str) -> Artifact:
    """Pin a session that is held: to the artifact that begins with `named`, else to that of its last turn."""
    conversation = session.conversation
    started, created = conversation.started, conversation.created
    if named:
        identity = _find(builder.store, named)
    elif started is not None and started.artifact:
        identity = started.artifact
    else:
        raise UsageError("no turn has run in this session yet", hint="name the artifact to pin")
    artifact = builder.store.load(identity)
    builder.store.keep(identity)
    if created is not None:
        check_agent(artifact, created.target.agent)
    session.append(SessionChanged("pin", identity, by), turn=0)
    write_derived(session)
    return artifact


def unpin(session: OpenSession, by: str) -> str:
    """Let a session that is held run from fresh artifacts again; return what it was pinned to."""
    pinned = session.conversation.standing.settings.get("pin", "")
    if pinned:
        session.append(SessionChanged("pin", "", by), turn=0)
        write_derived(session)
    return pinned


def _find(store: Store, named: str) -> str:
    if len(named) < _SHORTEST or not set(named) <= set("0123456789abcdef"):
        raise UsageError(f"{named!r} names no artifact", hint=f"{_SHORTEST} or more of its first digits do")
    try:
        found = sorted(name for name in os.listdir(store.folder) if name.startswith(named))
    except FileNotFoundError:
        found = []
    if not found:
        raise UsageError(f"there is no artifact {named}", hint="each turn.started of a session names its own")
    if len(found) > 1:
        raise UsageError(f"{named} begins {len(found)} artifacts", hint="give more digits")
    return found[0]


def _of_another_model(artifact: Artifact, target: AgentTarget) -> tuple[str, ...]:
    own = artifact.manifest.target
    if not target.profile or (isinstance(own, AgentTarget) and own.profile == target.profile):
        return ()
    return (f"note: model {target.profile} is not used: the session is pinned to {artifact.id[:12]}",)


def _check_model_file(artifact: Artifact, tree: Tree, target: AgentTarget) -> None:
    """Raise `ModelFileError` for a model file that is not the agent's today: trust speaks of that one."""
    binding = artifact.runtime.binding
    if not names_a_file(binding.provider, binding.model):
        return
    chosen = choose_model(tree, read_agent(tree, target.agent), read_general(tree), target.profile).model
    if (chosen.provider, chosen.id) != (binding.provider, binding.model):
        raise ModelFileError(
            f"the pinned artifact names the model file {binding.model}, which {target.agent} has no more",
            hint=_UNPIN,
        )


def _agent(tree: Tree, agent_id: str) -> Agent | None:
    try:
        return read_agent(tree, agent_id)
    except HaloError:
        return None  # then it is known of no tool that the agent has it


def _lost_tools(artifact: Artifact, agent: Agent | None) -> tuple[str, ...]:
    """Return what changes something, is in the artifact, and is nothing that the agent has today."""
    today = set(changing_tools(agent)) if agent is not None else set()
    served = {t.name: {f"mcp:{t.server}", f"mcp:{t.server}/{t.tool}"} for t in artifact.runtime.mcp}
    return tuple(
        spec.name
        for spec in artifact.manifest.tools
        if not permits("readonly", spec.access)
        and (spec.name in served or spec.name in LISTABLE_TOOLS)
        and not served.get(spec.name, {spec.name}) & today
    )


def _with_policies(artifact: Artifact, tree: Tree, agent: Agent | None) -> Artifact:
    """Put the rules of today beside those of the artifact: of all of them the strictest counts."""
    try:
        workspace = read_general_of(tree, WORKSPACE_SETTINGS).tools.policy
    except HaloError:
        workspace = ()
    runtime = artifact.runtime
    own = agent.config.policy if agent is not None else ()
    policies = tuple(dict.fromkeys((*runtime.policies, *(rules for rules in (own, workspace) if rules))))
    runtime = msgspec.structs.replace(runtime, policies=policies)
    return msgspec.structs.replace(
        artifact, manifest=msgspec.structs.replace(artifact.manifest, runtime=runtime)
    )
