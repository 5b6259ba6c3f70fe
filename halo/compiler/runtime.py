"""What the model that answers brings with it: the `runtime` block of an artifact, and tools it cannot use."""

from msgspec import UNSET

from halo.compiler.compilation import Compilation
from halo.records.artifacts import Api, Binding, Capabilities, McpTool, Runtime
from halo.records.diagnostics import Diagnostic
from halo.records.tools import ToolSpec
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.settings.general import General, read_general_of

# Windows in tokens of models that no catalogue has: small machines run `local`.
_WINDOW = {"local": 8192}
_LARGE_WINDOW = 200_000

# The bound of one reply in tokens when nothing names one.
_REPLY = 4096

# Tools whose results are pictures.
_SEEING = frozenset({"view_image"})


def runtime(job: Compilation, mcp: tuple[McpTool, ...] = ()) -> Runtime:
    """Collect all that a turn needs beside the text; `mcp` says where tools of servers come from."""
    model, facts = job.model.model, job.facts
    reserve = job.agent.config.context.reserve_tokens
    return Runtime(
        binding=Binding(
            provider=model.provider,
            model=model.id,
            endpoint=model.endpoint,
            max_tokens=model.max_tokens or _reply(job),
            temperature=model.temperature,
            top_p=model.top_p,
            top_k=model.top_k,
            seed=model.seed,
            api=model.api or _api(job),
            cache=model.cache or "5m",
            thinking=model.thinking,
        ),
        name=job.agent.name,
        tool_mode=job.model.tool_mode,
        context_tokens=_window(job),
        compress_at=job.agent.config.context.compress_at,
        access=job.target.access,
        capabilities=facts.capabilities if facts is not None else Capabilities(),
        min_cacheable_tokens=facts.min_cacheable if facts is not None else None,
        strategies=job.agent.config.context.strategies,
        max_messages=job.agent.config.context.max_messages,
        budgets=job.agent.config.budgets,
        policies=tuple(p for p in (job.agent.config.policy, _of_workspace(job).tools.policy) if p),
        mcp=mcp,
        reserve_tokens=UNSET if reserve is None else reserve,
    )


def _api(job: Compilation) -> Api:
    """Return the protocol that the catalogue names for the model; of another server it knows nothing."""
    if job.facts is None or job.model.model.endpoint:
        return "chat"
    return job.facts.api or "chat"


def _of_workspace(job: Compilation) -> General:
    # What the machine's settings add is read when a turn runs: it holds for artifacts of others, too.
    return read_general_of(job.tree, WORKSPACE_SETTINGS)


def _reply(job: Compilation) -> int:
    limit = job.facts.max_output if job.facts is not None else None
    return min(_REPLY, limit) if limit is not None else _REPLY


def _window(job: Compilation) -> int:
    """Return the window: agent.yaml's, else the catalogue's, else a guess by provider.

    agent.yaml speaks of the agent's own model: one that a profile put there has at most its own window.
    """
    known = job.facts.window if job.facts is not None else None
    usual = known or _WINDOW.get(job.model.model.provider, _LARGE_WINDOW)
    asked = job.agent.config.context.max_tokens
    if asked is None:
        return usual
    return min(asked, usual) if job.model.substituted else asked


def usable_tools(job: Compilation, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Leave out tools that show pictures to a model that sees none, and say so."""
    if job.facts is None or job.facts.capabilities.images is not False:
        return specs
    agent, model = job.agent, job.model.model
    for spec in specs:
        if spec.name in _SEEING:
            position = agent.config.tools.index(spec.name)
            job.say(
                Diagnostic(
                    "tool-without-images",
                    "info",
                    f"{spec.name} is left out: {model.provider}'s {model.id} sees no images",
                    agent.document.source,
                    agent.document.line("tools", position),
                )
            )
    return tuple(spec for spec in specs if spec.name not in _SEEING)
