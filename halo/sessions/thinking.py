"""How much a model thinks in one session: what was set there lies over what its artifact says. Pure."""

from typing import Literal, get_args

import msgspec

from halo.records.artifacts import Artifact, Binding, Reasoning

Level = Literal["off", "low", "medium", "high"]
LEVELS: tuple[Level, ...] = get_args(Level)

NO_EFFORT = "none"  # the word of `effort` that every provider's protocol takes for: not at all

# Anthropic refuses them beside thinking.
_UNSENT = {"anthropic": ("temperature", "top_k")}


def with_thinking(artifact: Artifact, level: str) -> Artifact:
    """Return the artifact as a turn runs it: the same text and id, with another `thinking` of the model.

    An empty level, and a word of a later version, leave it as it is.
    """
    manifest = artifact.manifest
    if level not in LEVELS or manifest.runtime is None:
        return artifact
    runtime = msgspec.structs.replace(manifest.runtime, binding=bound(manifest.runtime.binding, level))
    return msgspec.structs.replace(artifact, manifest=msgspec.structs.replace(manifest, runtime=runtime))


def bound(binding: Binding, level: str) -> Binding:
    """Return the binding with a level in the place of what it says of thinking."""
    effort = NO_EFFORT if level == "off" else level
    unsent = dict.fromkeys(_UNSENT.get(binding.provider, ()) if level != "off" else ())
    return msgspec.structs.replace(binding, thinking=Reasoning(effort=effort), **unsent)
