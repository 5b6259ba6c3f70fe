"""How OpenAI is asked to cache a prompt. Pure.

Every model caches by itself. Requests with the same `prompt_cache_key` are led to the machines that hold the
prefix already. The rest depends on the model, and which model has what is data (`capabilities` in
models/openai.yaml): older ones can be asked to keep a prefix for a day; newer ones find it again only where a
mark stood, and write a mark of their own at the end of the newest message. Halo adds one at the end of the
static prefix, which all sessions of an artifact share. Source: the provider's guide to prompt caching and the
types of its client, as of November 2026.
"""

from typing import Any

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.adapter import Request
from halo.models.prefix import Prefix
from halo.records.artifacts import Capabilities

Json = dict[str, Any]

# The provider takes keys of at most 64 characters.
_KEY_DIGITS = 40

# The lifetimes of a mark, which only Responses lets a request choose; half an hour if it names none.
_LONG = "12h"


def cache_fields(request: Request, capabilities: Capabilities) -> Json:
    """Return what a request to OpenAI's own endpoint says of the cache beside its marks.

    The key is made of the artifact's fingerprint: it names no user, no machine and no session.
    """
    cache, fingerprint = request.binding.cache, request.prefix.fingerprint
    if cache == "off":
        # Without a mark this caches nothing. Models that know no marks cannot be told.
        return {"prompt_cache_options": {"mode": "explicit"}} if capabilities.cache_marks else {}
    fields: Json = {}
    if fingerprint:
        fields["prompt_cache_key"] = f"halo-{fingerprint[:_KEY_DIGITS]}"
    # Models with marks refuse a request that has both.
    if cache == "1h" and capabilities.cache_retention and not capabilities.cache_marks:
        fields["prompt_cache_retention"] = "24h"
    return fields


def wants_mark(request: Request, capabilities: Capabilities, minimum: int | None) -> bool:
    """Say whether the end of the static prefix is worth a mark.

    `minimum`: tokens of the shortest prefix that the model caches, None where that is not known. The tools
    stand before the system text and count.
    """
    prefix = request.prefix
    if not capabilities.cache_marks or request.binding.cache == "off" or not prefix.static_prefix.strip():
        return False
    return minimum is None or _tokens(prefix) >= minimum


def marked_system(request: Request, kind: str, *, lifetimes: bool = False) -> list[Json]:
    """Cut the system text where its static prefix ends and mark that place.

    `kind` is the type of a text part. `lifetimes`: the protocol lets a mark say how long it lives.
    """
    prefix = request.prefix
    mark = {"mode": "explicit"}
    if lifetimes and request.binding.cache == "1h":
        mark["ttl"] = _LONG
    parts: list[Json] = [{"type": kind, "text": prefix.static_prefix, "prompt_cache_breakpoint": mark}]
    rest = prefix.system[len(prefix.static_prefix) :]
    return [*parts, {"type": kind, "text": rest}] if rest else parts


def _tokens(prefix: Prefix) -> int:
    tools = canonical_json(prefix.tools) if prefix.tools else b""
    return estimate(tools) + estimate(prefix.static_prefix.encode())
