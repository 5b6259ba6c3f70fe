"""Which adapter speaks for a binding."""

import os

from halo.errors import MissingKeyError, StartError, UnknownNameError
from halo.models.adapter import Adapter
from halo.models.catalogue import resolve
from halo.models.endpoints import OWN_ENDPOINTS, check_key_may_go, is_loopback, is_own, normalise
from halo.models.local import Local, Prepared
from halo.models.schema_calls import SchemaCalls
from halo.records.artifacts import PROVIDERS, UNKNOWN_CAPABILITIES, Binding, Capabilities, ToolMode
from halo.records.tools import ToolSpec

# The variable that holds a provider's key when the settings do not.
KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
}

# Clients insist on a key; servers on this machine and trusted ones may want none.
_NO_KEY = "not-needed"


def open_adapter(
    binding: Binding,
    *,
    tool_mode: ToolMode,
    key: str | None,
    trusted: bool,
    context_tokens: int,
    cache: str,
    base_dir: str,
    threads: int | None = None,
    min_cacheable: int | None = None,
    capabilities: Capabilities = UNKNOWN_CAPABILITIES,
) -> Adapter:
    """Return the adapter for `binding`; nothing is loaded or connected yet.

    `key` is the provider's, None when there is none; `trusted` says that `halo trust` allowed the
    endpoint. `context_tokens`, `base_dir` (for relative model paths) and `threads` (None: see
    `llama.default_threads`) concern the provider `local`; `cache`, the folder for what is derived, also
    `gemini`. `min_cacheable`: tokens of the shortest prefix that the model's provider caches, None where that
    is not known; `capabilities`: what the model can do, as the catalogue has it.
    Raises UnknownNameError for the provider, MissingKeyError, MissingEngineError, StartError when the key may
    not go to the endpoint.
    """
    adapter: Adapter
    if binding.provider == "local":
        adapter = open_local(
            binding, context_tokens=context_tokens, cache=cache, base_dir=base_dir, threads=threads
        )
    elif binding.provider in OWN_ENDPOINTS:
        adapter = _open_remote(binding, key, trusted, min_cacheable, capabilities, cache)
    else:
        raise UnknownNameError.of("provider", binding.provider, sorted(PROVIDERS))
    return SchemaCalls(adapter) if tool_mode == "schema" else adapter


def open_local(
    binding: Binding, *, context_tokens: int, cache: str, base_dir: str, threads: int | None = None
) -> Local:
    """Return the adapter of the provider `local`; parameters as in `open_adapter`.

    The model file is found and looked over at once, so that a missing or damaged one is said before a turn
    begins. Raises ModelFileError.
    """
    from halo.models.gguf import verify
    from halo.models.llama import default_threads

    if binding.endpoint:
        raise StartError(
            "the provider `local` has no endpoint: it runs in this process",
            hint="remove `endpoint` from the agent; provider `openai` speaks to llama.cpp servers elsewhere",
        )
    verify(resolve(binding.model, cache, base_dir), cache)
    return Local(
        binding.model,
        cache=cache,
        base_dir=base_dir,
        context_tokens=context_tokens,
        threads=threads or default_threads(os.environ),
    )


async def prepare_state(
    binding: Binding,
    static_prefix: str,
    *,
    tools: tuple[ToolSpec, ...],
    tool_mode: ToolMode,
    context_tokens: int,
    cache: str,
    base_dir: str,
    threads: int | None = None,
) -> Prepared:
    """Save the model state of a static prefix ahead of time (`halo build --kv`).

    `tools` are the artifact's; they are part of the state only where the chat template renders them.
    Raises as `open_adapter` and `Adapter.stream` do, and OSError when it cannot be saved.
    """
    local = open_local(
        binding, context_tokens=context_tokens, cache=cache, base_dir=base_dir, threads=threads
    )
    try:
        return await local.prepare_state(static_prefix, () if tool_mode == "schema" else tools)
    finally:
        await local.close()


def _open_remote(
    binding: Binding,
    key: str | None,
    trusted: bool,
    min_cacheable: int | None,
    capabilities: Capabilities,
    cache: str,
) -> Adapter:
    provider = binding.provider
    endpoint = normalise(provider, binding.endpoint)
    # Also without a key: the prompt itself must not go to an address that nobody allowed.
    check_key_may_go(provider, endpoint, trusted=trusted)
    if not key:
        if not is_loopback(endpoint) and is_own(provider, endpoint):
            raise MissingKeyError(
                f"the key of {provider} is not set",
                hint=f"set `{provider}.secrets.api_key` in the settings, or the environment variable "
                f"{KEY_VARIABLES[provider]}; `provider: local` needs none",
            )
        key = _NO_KEY
    if provider == "openai" and binding.api == "responses":
        from halo.models.openai_responses import OpenAIResponses

        return OpenAIResponses(endpoint, key, binding.model, capabilities=capabilities, minimum=min_cacheable)
    if provider in ("openai", "deepseek"):
        from halo.models.openai_chat import OpenAIChat

        return OpenAIChat(endpoint, key, provider=provider, capabilities=capabilities, minimum=min_cacheable)
    if provider == "gemini":
        from halo.models.gemini import Gemini
        from halo.models.gemini_client import require_client

        require_client()
        minimum = min_cacheable if capabilities.cache_marks else None
        return Gemini(endpoint, key, binding.model, cache=cache, minimum=minimum)
    from halo.models.anthropic_messages import AnthropicMessages

    return AnthropicMessages(endpoint, key, min_cacheable)
