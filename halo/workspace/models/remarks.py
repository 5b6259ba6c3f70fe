"""What `halo check` says about models: names that nothing answers to, catalogues that nobody can read.

None of it stands in the way of a compile: a new model works before a catalogue has it.
"""

from collections.abc import Iterator

from halo.errors import HaloError, LayerError, near_miss_hint
from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.records.diagnostics import Diagnostic
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.models.catalogue import Catalogue, read_catalogue
from halo.workspace.models.config import ModelConfig, Profile, settings_models
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import GENERAL, read_general, read_general_of
from halo.workspace.yamldoc import YamlDocument

_FOLDERS = ("workspace:.halo/models", "global:models")

_MOST = 20  # remarks of a kind


def model_remarks(tree: Tree) -> Iterator[Diagnostic]:
    """Look at catalogues, profiles and every model that is written out.

    Raises `LayerError` for settings that cannot be read.
    """
    catalogues: dict[str, Catalogue] = {}
    for provider in PROVIDERS:
        try:
            found = read_catalogue(tree, provider)
        except LayerError as error:
            yield Diagnostic("broken-catalogue", "error", error.message, error.file or "", error.line or 0)
            continue
        if found is not None:
            catalogues[provider] = found[1]
    yield from _some(_strange_catalogues(tree))
    unknown = (_unknown(model, catalogues, document, path) for model, document, path in _written(tree))
    yield from _some(remark for remark in unknown if remark is not None)
    yield from _some(_profiles(tree))


def _some(remarks: Iterator[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the first remarks: looking for near misses takes time, and the rest is the author's to make."""
    for count, remark in enumerate(remarks):
        if count == _MOST:
            yield Diagnostic(remark.code, remark.severity, "and more like these", remark.source, remark.line)
            return
        yield remark


def _strange_catalogues(tree: Tree) -> Iterator[Diagnostic]:
    for folder in _FOLDERS:
        if tree.kind(folder) != "dir":
            continue
        for entry in tree.list(folder):
            name = entry.name.removesuffix(".yaml")
            if name == entry.name or name not in PROVIDERS:
                hint = near_miss_hint(name, list(PROVIDERS))
                message = f"nothing reads {entry.name!r}: catalogues are called <provider>.yaml; {hint}"
                yield Diagnostic("unread-catalogue", "warning", message, folder)


def _written(tree: Tree) -> Iterator[tuple[ModelConfig, YamlDocument, tuple[str, ...]]]:
    """Yield every model that is written out, with the document and the path of its map."""
    for name in list_agents(tree):
        try:
            agent = read_agent(tree, name)
        except HaloError:
            continue  # said as what it is
        if isinstance(agent.config.model, ModelConfig):
            yield agent.config.model, agent.document, ("model",)
    for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
        written = settings_models(read_general_of(tree, source).models)
        if written:
            document = read_settings(tree, source)
            for path, model in written:
                yield model, document, (GENERAL, "models", *path)


def _unknown(
    model: ModelConfig, catalogues: dict[str, Catalogue], document: YamlDocument, path: tuple[str, ...]
) -> Diagnostic | None:
    """Remark on a model that its provider's catalogue does not have.

    Another server has names of its own, and a file on this machine stands in no catalogue.
    """
    catalogue = catalogues.get(model.provider)
    if catalogue is None or model.endpoint or model.id.lower().endswith(".gguf"):
        return None
    if model.id in catalogue.models:
        return None
    message = (
        f"models/{model.provider}.yaml does not have {model.id!r}, so its limits are guessed;"
        f" {near_miss_hint(model.id, list(catalogue.models))}"
    )
    return Diagnostic("unknown-model", "info", message, document.source, document.line(*path, "id"))


def _profiles(tree: Tree) -> Iterator[Diagnostic]:
    """Remark on profiles that name agents or aliases that do not exist."""
    aliases = sorted(read_general(tree).models.aliases)
    agents = list_agents(tree)
    for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
        profiles = read_general_of(tree, source).models.profiles
        if profiles:
            document = read_settings(tree, source)
            for name, profile in profiles.items():
                yield from _profile(profile, document, (GENERAL, "models", "profiles", name), agents, aliases)


def _profile(
    profile: Profile, document: YamlDocument, path: tuple[str, ...], agents: list[str], aliases: list[str]
) -> Iterator[Diagnostic]:
    for agent in profile.agents:
        if agent not in agents:
            message = f"there is no agent {agent!r}; {near_miss_hint(agent, agents)}"
            line = document.line(*path, "agents", agent)
            yield Diagnostic("profile-without-agent", "warning", message, document.source, line)
    for below, choice in profile.choices.items():
        if isinstance(choice, str) and choice not in aliases:
            message = f"unknown model alias {choice!r}; {near_miss_hint(choice, aliases)}"
            line = document.line(*path, *below)
            yield Diagnostic("unknown-alias", "error", message, document.source, line)
