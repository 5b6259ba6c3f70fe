"""Rules about agents: who uses one, what it lists, what it says of itself."""

from collections.abc import Iterator

from halo.checks.broken import broken
from halo.checks.literals import literals_in
from halo.checks.subject import Subject
from halo.errors import HaloError, LayerError, UnknownNameError, UsageError, near_miss_hint
from halo.files.canonical import canonical_text
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.records.targets import SkillTarget
from halo.records.tools import LISTABLE_TOOLS
from halo.workspace.agents import Agent, AgentConfig, read_agent, read_agent_body
from halo.workspace.conversion import convert
from halo.workspace.ids import list_ids, serving_folder, shelves
from halo.workspace.skills.reading import read_skill
from halo.workspace.yamldoc import YamlDocument, load_yaml


def unused(subject: Subject) -> Iterator[Diagnostic]:
    """H501, H502: an agent of the workspace that is on no team, a skill that no agent lists.

    The agent `default` and internal ones are used by the user and by Halo.
    """
    members: set[str] = set()
    skills: set[str] = set()
    own: list[tuple[str, str]] = []
    for agent in _readable(subject.tree, list_ids(subject.tree, "agents")):
        members.update(member for member in agent.config.team if member != agent.id)
        skills.update(agent.config.skills)
        if agent.scope == "workspace" and not agent.config.internal and agent.id != "default":
            own.append((agent.id, agent.document.source))
    for name, source in own:
        if name not in members and subject.is_chosen(name):
            yield Diagnostic(
                "unused-agent", "info", f"{name!r} is on no team: only you can start it", source, 1
            )
    for prompt in subject.prompts:
        target = prompt.target
        if isinstance(target, SkillTarget) and target.id not in skills:
            head = prompt.compiled.manifest.segments[0]
            if head.scope == "workspace":
                yield Diagnostic("unused-skill", "warning", f"no agent lists {target.id!r}", head.source, 1)


def _readable(tree: Tree, names: list[str]) -> Iterator[Agent]:
    for name in names:
        try:
            yield read_agent(tree, name)
        except HaloError:
            continue  # said as what it is


def lists(subject: Subject) -> Iterator[Diagnostic]:
    """H101 for each tool, skill and member of a team that does not exist; a compile stops at the first."""
    for name in subject.agent_ids():
        try:
            config, document = _config(subject.tree, name)
        except HaloError:
            continue  # said as what it is
        for error in (
            *_unknown_tools(config, document),
            *_unknown_skills(subject.tree, config, document),
            *_unknown_members(subject.tree, name, config, document),
        ):
            yield broken(error)


def _config(tree: Tree, name: str) -> tuple[AgentConfig, YamlDocument]:
    source = f"{serving_folder(tree, 'agents', name, hides=False).folder}/agent.yaml"
    document = load_yaml(canonical_text(tree.read(source), source), source)
    return convert(document, AgentConfig), document


def _unknown_tools(config: AgentConfig, document: YamlDocument) -> Iterator[LayerError]:
    for i, tool in enumerate(config.tools):
        if tool not in LISTABLE_TOOLS:
            hint = near_miss_hint(tool, list(LISTABLE_TOOLS))
            yield document.error(f"unknown tool {tool!r}", "tools", i, hint=hint)


def _unknown_skills(tree: Tree, config: AgentConfig, document: YamlDocument) -> Iterator[LayerError]:
    known = shelves(tree, "skills")
    for i, skill in enumerate(config.skills):
        try:
            read_skill(tree, skill, known, hides=False)
        except (UnknownNameError, UsageError) as error:
            yield document.error(f"skills: {error.message}", "skills", i, hint=error.hint)
        except HaloError:
            continue  # said as skill-skipped


def _unknown_members(
    tree: Tree, name: str, config: AgentConfig, document: YamlDocument
) -> Iterator[LayerError]:
    for i, member in enumerate(() if config.internal else config.team):
        try:
            if member != name:
                read_agent(tree, member, hides=False)
        except (UnknownNameError, UsageError) as error:
            yield document.error(f"team: {error.message}", "team", i, hint=error.hint)
        except HaloError:
            continue  # said of that agent


def speechless(subject: Subject) -> Iterator[Diagnostic]:
    """H506, H507: an agent without a text of its own; a member of a team that does not say what it is for."""
    for agent in _readable(subject.tree, subject.agent_ids()):
        try:
            body = read_agent_body(subject.tree, agent)
        except HaloError:
            continue  # said as what it is
        if agent.scope != "workspace":
            continue
        if body is None and not agent.config.system_prompt.strip():
            message = f"{agent.id!r} has neither AGENT.md nor a system_prompt"
            yield Diagnostic("agent-without-text", "warning", message, agent.document.source, 1)
        if not agent.description and not agent.config.internal and agent.id != "default":
            message = f"{agent.id!r} has no description: nobody can tell whether to hand it work"
            yield Diagnostic("agent-without-description", "warning", message, agent.document.source, 1)


def unresolved(subject: Subject) -> Iterator[Diagnostic]:
    """H102: a placeholder in agent.yaml, where nothing resolves it."""
    for agent in _readable(subject.tree, subject.agent_ids()):
        if agent.scope == "builtin":
            continue
        document, config = agent.document, agent.config
        yield from literals_in("name", config.name, document.source, document.line("name"))
        yield from literals_in(
            "description", config.description, document.source, document.line("description")
        )
        if not _has_body(subject.tree, agent):
            line = document.line("system_prompt")
            yield from literals_in("system_prompt", config.system_prompt, document.source, line)


def _has_body(tree: Tree, agent: Agent) -> bool:
    """Tell whether AGENT.md, which cannot be read perhaps, takes the place of `system_prompt`."""
    try:
        return read_agent_body(tree, agent) is not None
    except HaloError:
        return True
