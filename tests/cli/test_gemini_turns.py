"""`halo run` with provider `gemini`: processes that share a cached content, against a loopback server."""

import json
import os
import subprocess
import sys
import time

import pytest
from gemini_server import GeminiServer
from making import agent

PLACE = "{{workspace_root}}"


@pytest.fixture
def server():
    made = GeminiServer(minimum=4096)
    made.now = time.time()
    yield made
    made.close()


@pytest.fixture
def halo(make_workspace, server, tmp_path):
    """Run halo in a process of its own, in a workspace with a long prompt."""
    model = {"provider": "gemini", "id": "gemini-3.8-flash", "endpoint": server.url, "cache": "1h"}
    ws = make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=model, tools=["file_read"]),
            ".halo/agents/default/AGENT.md": "You keep the harbour book in order.\n" * 900
            + f"It lies in {PLACE}.\n",
        }
    )
    environ = {
        **{k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")},
        "HALO_HOME": str(ws.home),
        "HALO_CACHE": str(tmp_path / "cache"),
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "halo", *words], cwd=ws.root, env=environ, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip

    run.root = str(ws.root)
    return run


def test_the_second_process_names_what_the_first_one_made(halo, server):
    first, second = halo("run", "-n", "Hi"), halo("run", "-n", "And?")
    assert first.stdout.strip() == second.stdout.strip() == "Hello."
    assert "gemini keeps" in first.stderr
    assert "gemini keeps" not in second.stderr
    assert "(0 cached)" in first.stderr
    assert "(0 cached)" not in second.stderr
    (kept,) = server.kept()
    assert halo.root not in json.dumps(kept)
    assert halo.root in json.dumps(server.generated()[1]["contents"][0])
    assert [body["cachedContent"] for body in server.generated()] == ["cachedContents/made-1"] * 2


def test_the_provider_counts_a_prompt(halo, server):
    told = halo("prompt", "--layers", "--ask").stdout
    assert "by gemini's own count" in told
    assert server.asked[0].path.endswith(":countTokens")
