"""Which model answers, as agent.yaml and settings.yaml write it."""

from typing import Annotated, Literal

import msgspec


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`model:` of agent.yaml: who answers and how it samples.

    `endpoint` empty: the provider's own; an OpenAI one includes `/v1`, Anthropic's does not.
    `max_tokens` bounds one reply. `tool_mode: schema` sends a JSON Schema of the calls and reads the
    reply as calls, for models without a dependable tool protocol.
    """

    provider: str
    id: str
    endpoint: str = ""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=10)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0)] | None = None
    seed: int | None = None
    tool_mode: Literal["native", "schema"] | None = None


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.models.profiles.<name>`: the same layers with other models.

    `agents` names a model for single agents, `default` one for all others; each is an alias or a model.
    """

    default: str | ModelConfig | None = None
    agents: dict[str, str | ModelConfig] = {}
