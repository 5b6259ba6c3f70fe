"""The compiled artifact: `manifest.json` beside `prompt.md`, and the pointer that leads to both."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from halo.files.tree import Input
from halo.records.budgets import Budgets
from halo.records.diagnostics import Diagnostic
from halo.records.messages import Message
from halo.records.policies import PolicyRule
from halo.records.targets import Access, Target
from halo.records.tools import ToolSpec

FORMAT = 1

Scope = Literal["workspace", "global", "builtin", "halo"]
Stability = Literal["static", "volatile"]
ToolMode = Literal["native", "schema"]
Api = Literal["chat", "responses"]
CacheTime = Literal["off", "5m", "1h"]
Strategy = Literal["prune", "summarise", "truncate"]


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Where a byte range of prompt.md comes from.

    `start` and `end` are byte offsets in prompt.md; `line` is the line in `source` (from 1) of the first
    byte. In a verbatim span the lines go on one by one; a derived one was made from that line.
    """

    start: int
    end: int
    source: str
    line: int
    verbatim: bool


class Segment(msgspec.Struct, frozen=True):
    """A part of the prompt with one purpose.

    Byte range, and line range from 1, both ends included; `tokens` is the built-in estimate; `digest` is
    the SHA-256 of its bytes, `prefix_digest` of prompt.md up to its end; `hides` names the sources of other
    scopes that would have stood here.
    """

    id: str
    kind: str
    scope: Scope
    source: str
    start: int
    end: int
    first_line: int
    last_line: int
    tokens: int
    stability: Stability
    digest: str
    prefix_digest: str
    spans: tuple[Span, ...]
    hides: tuple[str, ...] = ()


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A byte range of prompt.md that is filled in memory when a turn starts.

    prompt.md holds the slot's source text, such as `{{now}}`. `origin`: `builtin` (workspace root, clock
    ...), `session`, `settings` (a value of the global settings), `environment` (`<<NAME>>` in the
    workspace's settings, declared `secret: false`; `template` is that value, unexpanded).
    """

    name: str
    origin: Literal["builtin", "session", "settings", "environment"]
    start: int
    end: int
    template: str = ""


class SkillRef(msgspec.Struct, frozen=True):
    """A skill that the model may activate."""

    id: str
    name: str
    description: str
    scope: Scope


class SkillCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `/<id>` at the start of a user's message does: it invokes a skill that the agent lists.

    `refused` says why it does not, where the skill is not for users, is disabled or needs more access.
    """

    id: str
    scope: Scope
    refused: str = ""


class TeamMember(msgspec.Struct, frozen=True):
    """An agent that this one may delegate to."""

    id: str
    name: str
    description: str


# Who can answer; `halo.models.opening` has an adapter for each.
PROVIDERS = ("local", "openai", "anthropic", "deepseek", "gemini")


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a model thinks before it answers: `effort` in the provider's words, or a bound in tokens."""

    effort: Annotated[str, Meta(description="How hard, in the provider's words: low, medium, high ...")] = ""
    budget_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The most tokens of thinking.")
    ] = None


class Binding(msgspec.Struct, frozen=True):
    """Which model answers, and how it samples. `endpoint` empty: the provider's own.

    `api` is the protocol where the provider has two (`openai`: Chat Completions or Responses). `cache` is how
    long a provider that wants to be asked keeps a prefix. `thinking` None leaves it to the provider.
    """

    provider: str
    model: str
    endpoint: str = ""
    max_tokens: int = 4096
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    api: Api = "chat"
    cache: CacheTime = "5m"
    thinking: Reasoning | None = None


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model can do, as the model catalogue has it; None where nobody knows.

    `tools`: calls by the provider's own protocol; `images`: it sees them; `thinking`: it can reason before it
    answers; `prompt_cache`: a prefix that was sent before costs less; `cache_marks`: the request may mark
    where that prefix ends, or name a resource that holds it; `cache_retention`: it may ask for a day of it.
    """

    tools: bool | None = None
    images: bool | None = None
    thinking: bool | None = None
    prompt_cache: bool | None = None
    cache_marks: bool | None = None
    cache_retention: bool | None = None


UNKNOWN_CAPABILITIES = Capabilities()


class McpTool(msgspec.Struct, frozen=True):
    """A tool of an MCP server: `name` in the tool list is `tool` of `server`; `digest` is the lock's."""

    name: str
    server: str
    tool: str
    digest: str


class Runtime(msgspec.Struct, frozen=True):
    """All else that a turn needs. `name` is the agent's name for people.

    `min_cacheable_tokens`: the shortest prefix that the provider caches, None where that is not known.
    `strategies` are tried in this order when the history fills more than `compress_at` of the window;
    `max_messages` caps it whatever it fills. Each of `policies` decides about a call; the strictest counts.
    `mcp` says where the tools of MCP servers come from. `reserve_tokens` of the window are to be free when a
    turn is over; absent where agent.yaml does not say.
    """

    binding: Binding
    name: str = ""
    tool_mode: ToolMode = "native"
    context_tokens: int = 200_000
    compress_at: float = 0.8
    access: Access = "full"
    capabilities: Capabilities = Capabilities()
    min_cacheable_tokens: int | None = None
    strategies: tuple[Strategy, ...] = ("prune", "summarise")
    max_messages: int | None = None
    budgets: Budgets = Budgets()
    policies: tuple[tuple[PolicyRule, ...], ...] = ()
    mcp: tuple[McpTool, ...] = ()
    reserve_tokens: int | msgspec.UnsetType = msgspec.UNSET


class FewShotSource(msgspec.Struct, frozen=True):
    """Where one message of the few-shots comes from: file and line of its turn; `tokens` is estimated."""

    source: str
    scope: Scope
    line: int
    tokens: int


class StaticPrefix(msgspec.Struct, frozen=True):
    """The text before the first slot: what every clone, colleague and CI job shares."""

    bytes: int
    tokens: int
    digest: str


class Manifest(msgspec.Struct, frozen=True):
    """manifest.json: everything about prompt.md that a turn or a reader needs (docs/reference/formats.md).

    The i-th of `few_shot_sources` belongs to the i-th of `few_shots`.
    """

    format: int
    compiler: str
    target: Target
    fingerprint: str
    static_prefix: StaticPrefix
    segments: tuple[Segment, ...]
    slots: tuple[Slot, ...]
    tools: tuple[ToolSpec, ...]
    skills: tuple[SkillRef, ...]
    team: tuple[TeamMember, ...]
    few_shots: tuple[Message, ...]
    runtime: Runtime | None
    diagnostics: tuple[Diagnostic, ...]
    few_shot_sources: tuple[FewShotSource, ...] = ()
    commands: tuple[SkillCommand, ...] = ()

    @property
    def tokens(self) -> int:
        """The estimate of the whole prompt."""
        return sum(s.tokens for s in self.segments)


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`build/<target>.json`: which artifact a target has, and everything that was consulted for it.

    `recorded_ns` is the wall clock (ns since the epoch) just before the inputs were read. `stale` holds
    the reason when a later compile failed; `seal` proves that it was written by this user on this machine.
    """

    format: int
    compiler: str
    target: Target
    artifact: str
    fingerprint: str
    recorded_ns: int
    inputs: tuple[Input, ...]
    stale: str = ""
    seal: str = ""


class Artifact(msgspec.Struct, frozen=True):
    """An artifact in memory: its id, the unfilled text, and the manifest."""

    id: str
    prompt: str
    manifest: Manifest

    @property
    def runtime(self) -> Runtime:
        """All that a turn needs beside the text. For an agent's: artifacts of skills and rules have none."""
        runtime = self.manifest.runtime
        assert runtime is not None  # noqa: S101  # agents have one
        return runtime
