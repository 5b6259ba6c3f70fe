"""The `runtime` block of an artifact: which model answers, its window, what it may do."""

from halo.compiler.compilation import Compilation
from halo.errors import LayerError
from halo.records.artifacts import Binding, Runtime

# Windows in tokens when agent.yaml names none: small machines run `local`.
_WINDOW = {"local": 8192}
_LARGE_WINDOW = 200_000


def runtime(job: Compilation) -> Runtime:
    """Collect all that a turn needs beside the text. Raises `LayerError` for a model without a name."""
    agent, target = job.agent, job.target
    model, context = agent.config.model, agent.config.context
    if not model.provider or not model.id:
        raise LayerError(
            "model needs a provider and an id", file=agent.document.source, line=agent.document.line("model")
        )
    return Runtime(
        binding=Binding(
            provider=model.provider,
            model=model.id,
            endpoint=model.endpoint,
            temperature=model.temperature,
            top_p=model.top_p,
            top_k=model.top_k,
            seed=model.seed,
            **({"max_tokens": model.max_tokens} if model.max_tokens is not None else {}),
        ),
        name=agent.name,
        tool_mode=agent.tool_mode,
        context_tokens=context.max_tokens or _WINDOW.get(model.provider, _LARGE_WINDOW),
        compress_at=context.compress_at,
        access=target.access,
    )
