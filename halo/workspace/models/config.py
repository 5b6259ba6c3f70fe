"""Which model answers, as agent.yaml and settings.yaml write it."""

import re
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from halo.errors import near_miss_hint
from halo.records.artifacts import PROVIDERS, Api, CacheTime, Reasoning

# Names of aliases and profiles: they stand on command lines and in the names of targets.
_NAME = re.compile(r"[a-z0-9_-]{1,100}\Z")


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model: who answers and how it samples.

    `endpoint` empty: the provider's own; an OpenAI one includes `/v1`, Anthropic's does not.
    `max_tokens` bounds one reply. `tool_mode: schema` sends a JSON Schema of the calls and reads the
    reply as calls, for models without a dependable tool protocol.
    """

    provider: Annotated[str, Meta(description="Who answers.")]
    id: Annotated[
        str,
        Meta(
            description="The provider's name of the model; with local a known name or a path to a .gguf file."
        ),
    ]
    endpoint: Annotated[
        str, Meta(description="Another server: with /v1 for OpenAI's protocol, without for Anthropic's.")
    ] = ""
    max_tokens: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Bounds one reply.")] = None
    temperature: Annotated[Annotated[float, Meta(ge=0, le=10)] | None, Meta(description="Sent if set.")] = (
        None
    )
    top_p: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="Sent if set.")] = None
    top_k: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Sent if set, and if the server takes it.")
    ] = None
    seed: Annotated[int | None, Meta(description="Sent if set, and if the server takes it.")] = None
    api: Annotated[
        Api | None,
        Meta(
            description="Which of OpenAI's protocols: chat or responses; left out, what the catalogue says."
        ),
    ] = None
    cache: Annotated[
        CacheTime | None,
        Meta(description="How long the provider is asked to keep the prefix; 5m if left out."),
    ] = None
    thinking: Annotated[
        Reasoning | None,
        Meta(description="How much it thinks before it answers: effort, or budget_tokens."),
    ] = None
    tool_mode: Annotated[
        Literal["native", "schema"] | None,
        Meta(description="How tools are called; schema: for models without a dependable tool protocol."),
    ] = None


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.models.profiles.<name>`: the same layers with other models.

    `agents` names a model for single agents, `default` one for all others; each is an alias or a model.
    """

    default: Annotated[
        str | ModelConfig | None,
        Meta(description="The model of every agent that agents does not name: an alias or a model."),
    ] = None
    agents: Annotated[
        dict[str, str | ModelConfig],
        Meta(description="The models of single agents, by id: an alias or a model."),
    ] = {}

    @property
    def choices(self) -> dict[tuple[str, ...], str | ModelConfig]:
        """Everything that it names, by its path below the profile."""
        found: dict[tuple[str, ...], str | ModelConfig] = {}
        if self.default is not None:
            found[("default",)] = self.default
        found.update({("agents", agent): choice for agent, choice in self.agents.items()})
        return found

    def path_for(self, agent: str) -> tuple[str, ...] | None:
        """Return the path of what stands for `agent`; None leaves it its own model."""
        if agent in self.agents:
            return ("agents", agent)
        return ("default",) if self.default is not None else None


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.models`: short names for models, and sets of models to run the same layers with."""

    aliases: Annotated[
        dict[str, ModelConfig], Meta(description="Short names that agents and profiles may use for models.")
    ] = {}
    profiles: Annotated[
        dict[str, Profile], Meta(description="Sets of models to run the same layers with: --profile NAME.")
    ] = {}


class Problem(NamedTuple):
    """What is wrong in a model or in model settings: the path from there, the message, what to do."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None


def model_problem(model: ModelConfig) -> Problem | None:
    """Find what the types cannot say: an unknown provider, no id, an endpoint that is no address."""
    if model.provider not in PROVIDERS:
        hint = near_miss_hint(model.provider, list(PROVIDERS))
        return Problem(("provider",), f"unknown provider {model.provider!r}", hint)
    if not model.id:
        return Problem(("id",), "model needs a provider and an id")
    if any(not "!" <= char <= "~" for char in model.endpoint):
        return Problem(("endpoint",), "model.endpoint: an address is printable ASCII")
    return None


def settings_problem(models: ModelSettings) -> Problem | None:
    """Find the first fault in aliases and profiles."""
    for kind, names in (("aliases", models.aliases), ("profiles", models.profiles)):
        for name in names:
            if not _NAME.match(name):
                what = "an alias" if kind == "aliases" else "a profile"
                return Problem(
                    (kind, name), f"{name!r} is not a name for {what}", "lower-case letters, digits, _ and -"
                )
    for path, model in settings_models(models):
        found = model_problem(model)
        if found is not None:
            return found._replace(path=(*path, *found.path))
    return None


def settings_models(models: ModelSettings) -> list[tuple[tuple[str, ...], ModelConfig]]:
    """List every model that is written out in aliases and profiles, with its path."""
    found: list[tuple[tuple[str, ...], ModelConfig]] = [
        (("aliases", name), model) for name, model in models.aliases.items()
    ]
    for name, profile in models.profiles.items():
        found += [
            (("profiles", name, *path), choice)
            for path, choice in profile.choices.items()
            if isinstance(choice, ModelConfig)
        ]
    return found
