"""What a user may call a model when a session shall have another one: `/new fast`, `/new openai/gpt-5-mini`.

The answer is the profile of a target: the name of a profile, or `=` and an alias or `provider/model`, which
stand for that one model whatever the agent (`choose_model`).
"""

from halo.errors import UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.workspace.agents import read_agent
from halo.workspace.demands import names_a_file
from halo.workspace.models.catalogue import read_catalogue
from halo.workspace.models.choice import choose_model
from halo.workspace.models.config import ModelConfig
from halo.workspace.settings.general import read_general

SINGLE = "="


def profile_named(tree: Tree, text: str, agent: str, *, whole: bool = False) -> str:
    """Return the profile of a target with the model that `text` names; empty for the own model of `agent`.

    The own name is the own model, endpoint and all. In this order: a profile, an alias, the own name,
    `provider/model`, a provider (the default of its catalogue), then the one name of all these that contains
    `text`, whatever the case. Raises `UnknownNameError` with near misses, `UsageError` when several contain
    it, `LayerError` for a broken catalogue. With `whole` a part of a name names nothing.
    """
    models = read_general(tree).models
    name = text.strip()
    provider, slash, model = name.partition("/")
    if name in models.profiles:
        return name
    if name in models.aliases:
        return SINGLE + name
    own = own_model(tree, agent)
    if name.lower() in (f"{own.provider}/{own.id}".lower(), own.id.lower()):
        return ""
    if slash and model and provider.lower() in PROVIDERS:
        if names_a_file(provider.lower(), model):
            raise UsageError(
                f"{name} is a file, not the name of a model",
                hint="files are named in agent.yaml or in general.models.aliases; see halo model list",
            )
        return f"{SINGLE}{provider.lower()}/{model}"
    if name.lower() in PROVIDERS:
        return SINGLE + _default(tree, name.lower())
    return _containing(model_names(tree), name, whole=whole)


def own_model(tree: Tree, agent: str) -> ModelConfig:
    """Return the model that an agent has by itself. Raises as `choose_model`."""
    return choose_model(tree, read_agent(tree, agent), read_general(tree)).model


def _default(tree: Tree, provider: str) -> str:
    found = read_catalogue(tree, provider)
    if found is None or not found[1].default:
        raise UsageError(
            f"{provider} has no model to begin with: its catalogue names no default",
            hint=f"name one: {provider}/MODEL",
        )
    return f"{provider}/{found[1].default}"


def model_names(tree: Tree) -> dict[str, str]:
    """Return all names that settings and catalogues have for models, each with its profile.

    Raises `LayerError` for a broken catalogue.
    """
    models = read_general(tree).models
    known = {**{p: p for p in models.profiles}, **{a: SINGLE + a for a in models.aliases}}
    for provider in PROVIDERS:
        found = read_catalogue(tree, provider)
        for model in found[1].models if found is not None else ():
            known[f"{provider}/{model}"] = f"{SINGLE}{provider}/{model}"
    return known


def _containing(known: dict[str, str], name: str, *, whole: bool) -> str:
    lowered = name.lower()
    # A whole model id first: `gpt-5` is also the beginning of others.
    fitting = [k for k in known if k.lower() == lowered or k.lower().partition("/")[2] == lowered]
    if not fitting and not whole:
        fitting = [k for k in known if lowered and lowered in k.lower()]
    if len(fitting) == 1:
        return known[fitting[0]]
    if fitting:
        some = ", ".join(fitting[:5])
        more = f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
        raise UsageError(f"{name!r} could be {some}{more}", hint="name one of them in full")
    raise UnknownNameError.of("model", name, sorted(known))
