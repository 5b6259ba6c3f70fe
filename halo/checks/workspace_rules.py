"""Rules about the workspace: what nothing uses, what collides, what leads nowhere."""

from collections import defaultdict
from collections.abc import Iterator

from halo.checks.subject import Subject
from halo.errors import HaloError, near_miss_hint
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget, SkillTarget
from halo.workspace.agents import read_agent, read_agent_body
from halo.workspace.ids import list_ids
from halo.workspace.layers import index_layer
from halo.workspace.links import find_links, relative_path
from halo.workspace.model_remarks import model_remarks
from halo.workspace.params import misfit, read_params
from halo.workspace.settings import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, lookup, read_settings
from halo.workspace.values import list_values


def unused(subject: Subject) -> Iterator[Diagnostic]:
    """H501, H502: an agent of the workspace that is on no team, a skill that no agent lists.

    The agent `default` and internal ones are used by the user and by Halo.
    """
    members: set[str] = set()
    skills: set[str] = set()
    own: list[tuple[str, str]] = []
    for name in list_ids(subject.tree, "agents"):
        try:
            agent = read_agent(subject.tree, name)
        except HaloError:
            continue  # said as what it is
        members.update(member for member in agent.config.team if member != name)
        skills.update(agent.config.skills)
        if agent.scope == "workspace" and not agent.config.internal and name != "default":
            own.append((name, agent.document.source))
    for name, source in own:
        if name not in members:
            yield Diagnostic(
                "unused-agent", "info", f"{name!r} is on no team: only you can start it", source, 1
            )
    for prompt in subject.prompts:
        target = prompt.target
        if isinstance(target, SkillTarget) and target.id not in skills:
            head = prompt.compiled.manifest.segments[0]
            if head.scope == "workspace":
                yield Diagnostic("unused-skill", "warning", f"no agent lists {target.id!r}", head.source, 1)


def models(subject: Subject) -> Iterator[Diagnostic]:
    """H508 to H512: names of models, aliases and profiles, and the catalogues."""
    yield from model_remarks(subject.tree)


def collisions(subject: Subject) -> Iterator[Diagnostic]:
    """H401: names that are one name where a file system ignores case, as macOS's and Windows's do."""
    for folder in (
        "workspace:.halo",
        *(f"workspace:.halo/{name}" for name in ("agents", "skills", "prompts/all", "prompts/root")),
        "workspace:.halo/prompts/bootstrap",
    ):
        yield from _colliding(subject.tree, folder)
    seen: dict[str, str] = {}
    for target in subject.survey.targets:
        if isinstance(target, AgentTarget | SkillTarget):
            continue
        other = seen.setdefault(target.directory.casefold(), target.directory)
        if other != target.directory:
            yield _collision(f"workspace:{target.directory}", other, target.directory)


def _colliding(tree: Tree, folder: str) -> Iterator[Diagnostic]:
    if tree.kind(folder) != "dir":
        return
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in tree.list(folder):
        groups[entry.name.casefold()].append(entry.name)
    for names in groups.values():
        if len(names) > 1:
            yield _collision(folder, *names[:2])


def _collision(place: str, first: str, second: str) -> Diagnostic:
    message = f"{first!r} and {second!r} are one name on file systems that ignore case"
    return Diagnostic("case-collision", "error", message, place)


def index_links(subject: Subject) -> Iterator[Diagnostic]:
    """H402: a link in INDEX.md to a file that is not there; an agent that follows it wastes a call."""
    layer = index_layer(subject.tree)
    if layer is None or not layer.body:
        return
    for link, line in find_links(layer.body):
        target = relative_path(link)
        if not target:
            continue
        if not any(_there(subject.tree, base, target) for base in ("workspace:", "workspace:.halo/")):
            yield Diagnostic(
                "broken-link",
                "warning",
                f"{target} is not there (links are looked up from the workspace and from .halo/)",
                layer.source,
                layer.line + line,
            )


def _there(tree: Tree, base: str, target: str) -> bool:
    parts: list[str] = []
    for part in f"{base.partition(':')[2]}{target}".split("/"):
        if part == ".." and not parts:
            return False  # it leaves the workspace
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    try:
        return tree.kind("workspace:" + "/".join(parts)) in ("file", "dir")
    except HaloError:
        return False


def settings_values(subject: Subject) -> Iterator[Diagnostic]:
    """H503, H504, H703: values that nobody claims, and secrets in a file that is committed."""
    known = sorted({*list_ids(subject.tree, "agents"), *list_ids(subject.tree, "skills")})
    for value in list_values(subject.tree):
        owner = value.name.partition(".")[0]
        if value.claim == "unclaimed":
            hint = near_miss_hint(owner, known) if known else "nobody has that id"
            message = f"{value.name}: there is no agent, skill or provider {owner!r}; {hint}"
            yield Diagnostic("unclaimed-value", "warning", message, value.source, value.line)
        elif value.claim == "undeclared":
            message = f"{value.name} is not declared in config.yaml of {owner!r}"
            yield Diagnostic("undeclared-value", "info", message, value.source, value.line)
        if value.bare and value.source.startswith("workspace:"):
            cure = "take the default out" if value.default else "write <<NAME>> instead"
            message = f"{value.name} stands in a file that is committed; {cure}"
            yield Diagnostic("committed-secret", "error", message, value.source, value.line)


def misfits(subject: Subject) -> Iterator[Diagnostic]:
    """H505: a value of another type than its declaration says."""
    documents = [read_settings(subject.tree, source) for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS)]
    for kind in ("agents", "skills"):
        for name in list_ids(subject.tree, kind):
            for key, declared in read_params(subject.tree, name).declared.items():
                for document in documents:
                    setting = lookup(document, f"{name}.params.{key}")
                    if setting is not None and (wrong := misfit(declared.param, setting)):
                        message = f"{name}.params.{key} {wrong}"
                        yield Diagnostic("unfit-value", "error", message, setting.source, setting.line)


def speechless_agents(subject: Subject) -> Iterator[Diagnostic]:
    """H506, H507: an agent without a text of its own; a member of a team that does not say what it is for."""
    for name in list_ids(subject.tree, "agents"):
        try:
            agent = read_agent(subject.tree, name)
            body = read_agent_body(subject.tree, agent)
        except HaloError:
            continue  # said as what it is
        if agent.scope != "workspace":
            continue
        if body is None and not agent.config.system_prompt.strip():
            message = f"{name!r} has neither AGENT.md nor a system_prompt"
            yield Diagnostic("agent-without-text", "warning", message, agent.document.source, 1)
        if not agent.description and not agent.config.internal and name != "default":
            message = f"{name!r} has no description: nobody can tell whether to hand it work"
            yield Diagnostic("agent-without-description", "warning", message, agent.document.source, 1)
