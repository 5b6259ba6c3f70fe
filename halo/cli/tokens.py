"""Token counts for the commands that show them: cached, and with a word on why one is an estimate."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.models.adapter import Adapter, Request
    from halo.models.prompt_counts import Counter, PromptCounts
    from halo.records.artifacts import Artifact, Manifest
    from halo.records.targets import AgentTarget


def offline_counter() -> "Counter":
    """Return what counts without a network; why it had to estimate is said on stderr, each reason once."""
    from halo.models.catalogue import cache_dir
    from halo.models.count_cache import CountCache
    from halo.models.prompt_counts import count_prompt

    cache = CountCache(cache_dir(os.environ))
    told: set[str] = set()

    def count(prompt: str, manifest: "Manifest", *, parts: bool) -> "PromptCounts":
        counts = count_prompt(prompt, manifest, cache, parts=parts)
        if counts.note and counts.note not in told:
            told.add(counts.note)
            click.echo(f"note: tokens are estimated: {counts.note}", err=True)
        return counts

    return count


def ask(builder: "Builder", artifact: "Artifact", target: "AgentTarget") -> int:
    """Ask the model's provider how many tokens the request of a first turn has, as its slots are written.

    The user's message is one character. An answer of a hosted provider is kept by the digest of the request
    and not asked for again, so that it needs neither key nor network then. Raises as a turn would.
    """
    import asyncio
    import time

    from halo.models.catalogue import cache_dir
    from halo.models.count_cache import CountCache
    from halo.sessions.desk import Desk

    folder = cache_dir(os.environ)
    cache = CountCache(folder)
    request = _request(artifact)
    provider = request.binding.provider
    who, digest = f"asked-{provider}", _digest(artifact, request)
    keeps = provider != "local"  # a model file may change under its name
    if keeps and (known := cache.get(who, [digest])):
        return known[digest]
    adapter = Desk(builder, os.environ, folder, time.time_ns).adapter(artifact, target)
    number = asyncio.run(_asked(adapter, request))
    if keeps:
        cache.put(who, {digest: number})
    return number


async def _asked(adapter: "Adapter", request: "Request") -> int:
    try:
        return await adapter.count(request)
    finally:
        await adapter.close()


def _request(artifact: "Artifact") -> "Request":
    from halo.models.adapter import Request
    from halo.models.prefix import Prefix
    from halo.records.messages import user

    manifest = artifact.manifest
    prefix = Prefix(
        system=artifact.prompt,
        static_prefix=artifact.prompt.encode()[: manifest.static_prefix.bytes].decode(),
        tools=manifest.tools,
        few_shots=manifest.few_shots,
        fingerprint=manifest.fingerprint,
    )
    return Request(prefix, (user("."),), artifact.runtime.binding)


def _digest(artifact: "Artifact", request: "Request") -> str:
    """Return the digest of all that decides about the count; sampling does not."""
    from halo.files.canonical import canonical_json
    from halo.files.digests import sha256
    from halo.version import __version__

    where = [request.binding.endpoint, request.binding.model, artifact.runtime.tool_mode, __version__]
    prefix = request.prefix
    return sha256(
        canonical_json([where, prefix.system, prefix.static_prefix, request.messages, prefix.tools])
    )
