"""Rules about the workspace: names that collide, models, values, what its settings name."""

from collections import defaultdict
from collections.abc import Iterator

from halo.checks.credentials import credential_in
from halo.checks.subject import Subject
from halo.errors import HaloError, StartError, near_miss_hint
from halo.files.tree import Tree
from halo.models.endpoints import is_loopback, parse
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget, SkillTarget
from halo.workspace.agents import read_agent
from halo.workspace.context_files import read_context_files
from halo.workspace.ids import list_ids
from halo.workspace.layers import user_layer
from halo.workspace.models.config import ModelConfig, settings_models
from halo.workspace.models.remarks import model_remarks
from halo.workspace.settings.delivery import connects
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    lookup,
    read_settings,
    variables_in,
)
from halo.workspace.settings.general import General, read_general_of
from halo.workspace.settings.params import misfit, read_params
from halo.workspace.settings.values import list_values
from halo.workspace.yamldoc import YamlDocument


def models(subject: Subject) -> Iterator[Diagnostic]:
    """H508 to H512: names of models, aliases and profiles, and the catalogues."""
    yield from model_remarks(subject.tree)


def endpoints(subject: Subject) -> Iterator[Diagnostic]:
    """H519: endpoints of models that are no address."""
    for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
        document = read_settings(subject.tree, source)
        for path, model in settings_models(read_general_of(subject.tree, source).models):
            yield from _unfit(model.endpoint, document, ("general", "models", *path, "endpoint"))
    for name in subject.agent_ids():
        try:
            agent = read_agent(subject.tree, name)
        except HaloError:
            continue  # said as what it is
        if isinstance(agent.config.model, ModelConfig):
            yield from _unfit(agent.config.model.endpoint, agent.document, ("model", "endpoint"))


def _unfit(endpoint: str, document: YamlDocument, path: tuple[str, ...]) -> Iterator[Diagnostic]:
    if not endpoint.strip():
        return
    try:
        parse(endpoint.strip())
    except StartError as error:
        cure = _with_scheme(endpoint.strip()) or error.hint
        message = f"{error.message}; {cure}"
        yield Diagnostic("unfit-endpoint", "error", message, document.source, document.line(*path))


def _with_scheme(endpoint: str) -> str:
    """Say how an address is written whose scheme is missing; empty if that is not what is wrong."""
    whole = f"http://{endpoint}"
    try:
        parse(whole)
    except StartError:
        return ""
    return f"write {whole}" if is_loopback(whole) else f"write https://{endpoint}, or {whole}"


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
            message = (
                f"{value.name} is not declared in config.yaml of {owner!r}{_meant(subject.tree, value.name)}"
            )
            yield Diagnostic("undeclared-value", "info", message, value.source, value.line)
        if value.bare and value.source.startswith("workspace:"):
            cure = "take the default out" if value.default else "write <<NAME>> instead"
            message = f"{value.name} stands in a file that is committed; {cure}"
            yield Diagnostic("committed-secret", "error", message, value.source, value.line)


def server_secrets(subject: Subject) -> Iterator[Diagnostic]:
    """H703: what looks like a secret and is given to an MCP server or a channel, in a committed file."""
    document = read_settings(subject.tree, WORKSPACE_SETTINGS)
    for path, value in _given(read_general_of(subject.tree, WORKSPACE_SETTINGS)):
        key = path[-1]
        speaks = key.lower() in _AUTHORIZING or credential_in(f"{key}: {value}")
        if speaks and value and not variables_in(value):
            message = f"{'.'.join(path)} stands in a file that is committed; write <<NAME>> instead"
            line = document.line(*path)
            yield Diagnostic("committed-secret", "error", message, WORKSPACE_SETTINGS, line)


def _given(general: General) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and value of all that MCP servers and channels are given."""
    for name, server in general.mcp.servers.items():
        for part, values in (("env", server.env), ("headers", server.headers)):
            yield from (
                (("general", "mcp", "servers", name, part, key), value) for key, value in values.items()
            )
    for path, connect in connects(general.delivery):
        yield from (
            (("general", "delivery", *path, "params", k), value) for k, value in connect.params.items()
        )


_AUTHORIZING = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "secret"})


def _meant(tree: Tree, name: str) -> str:
    """Say which declared key was meant; empty where none is near."""
    owner, part, key = name.split(".", 2) if name.count(".") > 1 else (name, "", "")
    params = read_params(tree, owner)
    hint = near_miss_hint(key, sorted(params.secret if part == "secrets" else params.declared))
    return f"; {hint}" if hint.startswith("did you mean") else ""


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


def missing_context(subject: Subject) -> Iterator[Diagnostic]:
    """H309: a context file of the settings that is nowhere: each prompt has a marker in its place."""
    settings = subject.general.prompt
    for file in read_context_files(subject.tree, settings, new=user_layer(subject.tree) is None):
        if file.layer is None:
            message = f"there is no .halo/{file.name}; in each prompt stands [MISSING] in its place"
            yield Diagnostic("context-file-missing", "warning", message, file.setting, file.line)
