"""What a provider's cache gives back: expected and real hits, measured on the real llama.cpp server.

Every protocol that the server speaks, through the provider's own client, and the engine in this process. One
conversation of three turns, then another one that shares the prefix alone. Prints a table of prompt tokens:
how many should have come from the cache by what was sent before, and how many did. Needs the extra `local`.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

MODEL = "smollm2-135m-instruct"
PROVIDERS = {
    "openai, chat": ("openai", {}, "/v1"),
    "openai, responses": ("openai", {"api": "responses"}, "/v1"),
    "anthropic": ("anthropic", {}, ""),
    "local": ("local", {}, None),
}
QUESTIONS = ("What is the capital of France?", "And of Spain?", "And of Italy?")


def make_workspace(root, url):
    """Make one agent a provider, with a prompt of about a thousand tokens."""
    for number, (name, (provider, more, path)) in enumerate(PROVIDERS.items()):
        agent = Path(root) / ".halo" / "agents" / name.replace(", ", "-")
        agent.mkdir(parents=True)
        model = {"provider": provider, "id": MODEL, "temperature": 0, "seed": 7, "max_tokens": 24, **more}
        if path is not None:
            model["endpoint"] = url + path
        settings = {"model": model, "context": {"max_tokens": 4096, "compress_at": 1}}
        (agent / "agent.yaml").write_text(json.dumps(settings))
        # Each has a prompt of its own: the server has one cache for all.
        (agent / "AGENT.md").write_text(
            f"You are clerk {number}.\n\n" + "Answer in one short sentence.\n" * 140
        )
    (Path(root) / ".halo" / "USER.md").write_text("Mira.\n")


async def measure(workspace, name):
    """Yield (what, prompt tokens, expected, read) of each turn."""
    from halo import Agent

    async with Agent.load(workspace, name.replace(", ", "-")) as agent:
        rows = [await _turn(agent, f"turn {n}", question) for n, question in enumerate(QUESTIONS, 1)]
        agent.clear_history()
        rows.append(await _turn(agent, "history cleared", "What is the capital of Portugal?"))
    return rows


async def _turn(agent, what, question):
    before = agent.stats.expected
    result = await agent.generate_text(question)
    return what, result.usage.prompt, agent.stats.expected - before, result.usage.read


def main():
    from halo.models import llama
    from halo.models.catalogue import cache_dir, resolve
    from halo.models.pull import pull

    cache = os.environ.get("HALO_CACHE") or cache_dir(os.environ)
    pull(MODEL, cache, lambda _done, _total: None)
    with tempfile.TemporaryDirectory() as folder:
        engine = llama.start(
            resolve(MODEL, cache, folder), alias=MODEL, context_tokens=4096, threads=1, states=folder
        )
        from halo import Workspace

        try:
            make_workspace(f"{folder}/ws", engine.url)
            keys = {"OPENAI_API_KEY": engine.key, "ANTHROPIC_API_KEY": engine.key}
            home = {"HALO_HOME": f"{folder}/home", "HALO_CACHE": cache}
            workspace = Workspace(f"{folder}/ws", environ={**os.environ, **keys, **home})
            print("\nPrompt tokens: expected from the cache, and read from it\n")
            print("| provider | turn | prompt | expected | read |")
            print("|---|---|---:|---:|---:|")
            for name in PROVIDERS:
                for what, prompt, expected, read in asyncio.run(measure(workspace, name)):
                    print(f"| {name} | {what} | {prompt:,} | {expected:,} | {read:,} |")
                sys.stdout.flush()
        finally:
            engine.close()


if __name__ == "__main__":
    main()
