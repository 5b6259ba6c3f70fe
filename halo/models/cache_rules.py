"""What of an earlier request a provider promises to have in its cache. Data, as of November 2026.

Sources: the providers' guides to prompt caching; docs/explanation/caching.md tells them. Figures are on the
safe side: what is expected by mistake becomes a warning about nothing.
"""

from typing import Literal

import msgspec

from halo.models.endpoints import is_own, normalise
from halo.records.artifacts import Binding, Capabilities
from halo.records.usage import Usage

_MINUTE, _HOUR = 60.0, 3600.0


class CacheRule(msgspec.Struct, frozen=True):
    """What to expect of the next call.

    `life`: seconds that a conversation is kept after it was used. `minimum`: fewer tokens are not cached.
    `step`: hits come in multiples of it. `slack`: tokens that may be missing without being a loss.
    `settles`: seconds until what was sent is found. `tells`: the provider says what it wrote, so that read
    and written together are what it holds; else it holds the whole prompt. `keeps`: what is found again, the
    `conversation`, or only a `resource` that the last call named (`Finished.promised`), whatever was read
    beside it. `proven`: nothing is promised, so nothing is expected before a hit was seen. `beyond`: what the
    cache of another process holds can be known.
    """

    life: float = 5 * _MINUTE
    minimum: int = 0
    step: int = 1
    slack: int = 0
    settles: float = 0.0
    tells: bool = False
    keeps: Literal["conversation", "resource"] = "conversation"
    proven: bool = False
    beyond: bool = True

    def held(self, usage: Usage, promised: int = 0) -> int:
        """Return how many tokens of a call are in the cache afterwards, as far as can be known."""
        if self.keeps == "resource":
            return promised
        if self.proven and not usage.read:
            return 0
        tokens = usage.read + usage.written if self.tells else usage.prompt
        return tokens - tokens % self.step if tokens >= self.minimum else 0


# A server that speaks a provider's protocol: many cache, none promises to.
_COMPATIBLE = CacheRule(step=128, slack=256, proven=True)


def rule_for(binding: Binding, capabilities: Capabilities) -> CacheRule | None:
    """Return the rule for a model; None where nothing is cached, or nobody has said so."""
    if capabilities.prompt_cache is False:
        return None
    provider = binding.provider
    if provider == "local":
        # The engine's slot: gone with the process, and the end of a prompt is always computed anew.
        return CacheRule(life=24 * _HOUR, slack=64, beyond=False)
    if provider == "gemini":
        # Implicit hits are not promised. A CachedContent is read as a whole or not at all; whether another
        # process named one does not stand in a log, but the adapter itself sees when one is gone.
        if binding.cache == "off" or not capabilities.cache_marks:
            return None
        life = _long(binding, 5 * _MINUTE, _HOUR)
        return CacheRule(life=life, keeps="resource", slack=64, beyond=False)
    if not is_own(provider, normalise(provider, binding.endpoint)):
        return _COMPATIBLE
    if provider == "deepseek":
        return CacheRule(life=_HOUR, minimum=64, step=64, slack=64, settles=10.0)
    if provider == "anthropic":
        # The conversation is marked for five minutes whatever the prefix is marked for.
        return None if binding.cache == "off" else CacheRule(tells=True, slack=16)
    return _openai(binding, capabilities)


def _openai(binding: Binding, capabilities: Capabilities) -> CacheRule | None:
    if capabilities.cache_marks:
        return (
            None
            if binding.cache == "off"
            else CacheRule(life=30 * _MINUTE, minimum=1024, tells=True, slack=128)
        )
    life = _long(binding, 5 * _MINUTE, 24 * _HOUR) if capabilities.cache_retention else 5 * _MINUTE
    return CacheRule(life=life, minimum=1024, step=128, slack=128)


def _long(binding: Binding, short: float, long: float) -> float:
    return long if binding.cache == "1h" else short
