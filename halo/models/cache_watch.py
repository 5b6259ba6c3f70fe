"""Expected and real cache hits: what a call should find in the provider's cache, and why it did not.

For one conversation at a time. Comparing costs what is new of it: earlier messages are the same objects.
"""

import msgspec

from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.models.adapter import Finished, Notice, Request
from halo.models.body_differences import body_difference
from halo.models.cache_rules import CacheRule
from halo.models.prefix import Prefix
from halo.records.usage import Usage


class Earlier(msgspec.Struct, frozen=True):
    """The last call of a conversation, by another process with the same artifact.

    `at`: seconds since the epoch. `prefix` is the digest of its filled prefix, empty where nobody noted it.
    """

    usage: Usage
    at: float
    prefix: str = ""


class _Last(msgspec.Struct, frozen=True):
    """The last call of this process; `began` and `ended` in seconds since the epoch."""

    request: Request
    finished: Finished
    began: float
    ended: float


class CacheWatch:
    """Says before each call what to expect, and afterwards what is missing.

    `rule` is the model's, None where nothing is cached. `earlier` is what the session's log knows. Times are
    seconds since the epoch.
    """

    def __init__(self, rule: CacheRule | None, earlier: Earlier | None = None) -> None:
        self._rule = rule
        self._earlier = earlier
        self._last: _Last | None = None
        self._asked: tuple[Request, float] | None = None
        self._expected = 0
        self._digest: tuple[Prefix, str] | None = None

    def expect(self, request: Request, now: float) -> int:
        """Return how many prompt tokens of a call that begins now should come from the cache."""
        self._asked = request, now
        self._expected = self._expect(request, now) if self._rule is not None else 0
        return self._expected

    def seen(self, finished: Finished, now: float) -> Notice | None:
        """Take the reply to what was asked last; return a warning when the cache held less than expected."""
        if self._asked is None:
            return None
        request, began = self._asked
        short = self._short(finished.usage)
        notice = Notice(self._warning(request, finished)) if short else None
        self._last, self._earlier = _Last(request, finished, began, now), None
        return notice

    def prefix_digest(self, request: Request) -> str:
        """Return a digest of the filled prefix, for the process that goes on with this conversation."""
        prefix = request.prefix
        if self._digest is None or self._digest[0] is not prefix:
            parts = (prefix.system, prefix.tools, prefix.few_shots)
            self._digest = prefix, sha256(canonical_json(parts))[:16]
        return self._digest[1]

    def _expect(self, request: Request, now: float) -> int:
        rule = self._rule
        if rule is None:
            return 0
        if self._last is None:
            earlier = self._earlier
            if earlier is None or not rule.beyond or not 0 <= now - earlier.at < rule.life:
                return 0
            return rule.held(earlier.usage)
        last = self._last
        if now - last.began >= rule.life or now - last.ended < rule.settles:
            return 0
        done = last.finished
        return rule.held(done.usage, done.promised) if _continues(last.request, request, rule) else 0

    def _short(self, usage: Usage) -> bool:
        rule = self._rule
        if rule is None:
            return False
        # A resource that this call has made anew is what there was to read; its adapter says why.
        found = usage.read + (usage.written if rule.keeps == "resource" else 0)
        return found < self._expected - rule.slack

    def _warning(self, request: Request, finished: Finished) -> str:
        missing = self._expected - finished.usage.read
        return (
            f"warning: of {self._expected:,} tokens that should have come from the provider's cache, "
            f"{missing:,} did not although the fingerprint is the same: {self._why(request, finished)}"
        )

    def _why(self, request: Request, finished: Finished) -> str:
        if self._last is None:
            known = self._earlier.prefix if self._earlier is not None else ""
            if known and known != self.prefix_digest(request):
                return "the filled system text is not the last turn's, so the value of a slot has changed"
            return "the last call was made by another process; the system text is the same as then"
        before, after = self._last.finished.body, finished.body
        if before is None or after is None:
            return "this provider's requests cannot be compared"
        if found := body_difference(before, after):
            return f"the first difference to the last request is in the {found}"
        return (
            "nothing of what was sent before differs, so the provider dropped it (it expired, was evicted, "
            "or another machine answered)"
        )


def _continues(last: Request, now: Request, rule: CacheRule) -> bool:
    """Say whether a request repeats the last one and goes on."""
    if _shape(last) != _shape(now) or not _same_prefix(last.prefix, now.prefix):
        return False
    # Tuples compare their items by identity first.
    return rule.keeps == "resource" or now.history[: len(last.history)] == last.history


def _same_prefix(last: Prefix, now: Prefix) -> bool:
    """Compare what was compiled. A changed value of a slot is no new prompt but a loss, which is told."""
    if last is now:
        return True
    if last.fingerprint or now.fingerprint:
        return last.fingerprint == now.fingerprint
    return last == now


def _shape(request: Request) -> tuple[object, ...]:
    """Return what else a provider's cache depends on."""
    binding = request.binding
    return (
        binding.provider,
        binding.model,
        binding.endpoint,
        binding.api,
        binding.cache,
        binding.thinking,
        request.response_schema,
        request.tool_choice,
    )
