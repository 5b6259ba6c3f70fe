"""Keys of saved model states, from what a state depends on."""

from collections.abc import Iterable

from halo.errors import HaloError, MissingEngineError
from halo.models import llama
from halo.models.catalogue import resolve
from halo.models.chat_wire import chat_tools
from halo.models.gguf import verify
from halo.models.states import state_key
from halo.records.artifacts import Artifact
from halo.records.tools import ToolSpec


def key_of(static_prefix: str, tools: tuple[ToolSpec, ...], model_sha256: str) -> str:
    """Return the key of the state of a static prefix in a model; `tools` are those that go out natively."""
    return state_key(
        static_prefix=static_prefix,
        tools=chat_tools(tools),
        model_sha256=model_sha256,
        engine=llama.state_layout(),
    )


def live_keys(artifacts: Iterable[Artifact], cache: str, base_dir: str) -> frozenset[str] | None:
    """Return the keys of all states that turns from `artifacts` may use, with the models that are here.

    None where that cannot be told: the engine is not installed, and its version is part of a key. A model
    that is not here, or damaged, has no use for a state. `base_dir` is that of relative model paths.
    """
    digests: dict[str, str] = {}
    keys = set()
    try:
        for artifact in artifacts:
            runtime = artifact.manifest.runtime
            if runtime is None or runtime.binding.provider != "local":
                continue
            model = runtime.binding.model
            if model not in digests:
                digests[model] = _digest(model, cache, base_dir)
            if not digests[model]:
                continue
            prefix = artifact.prompt.encode()[: artifact.manifest.static_prefix.bytes].decode()
            tools = () if runtime.tool_mode == "schema" else artifact.manifest.tools
            keys.add(key_of(prefix, tools, digests[model]))
    except MissingEngineError:
        return None
    return frozenset(keys)


def _digest(model: str, cache: str, base_dir: str) -> str:
    try:
        return verify(resolve(model, cache, base_dir), cache).sha256
    except HaloError:
        return ""
