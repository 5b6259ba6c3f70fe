"""A truncated context file is said by every build, for as long as it is so."""

import pytest
from making import agent

from halo.build.whole import passes

SETTINGS = "general:\n  prompt:\n    context_files: [SOUL.md]\n    context_overflow: truncate\n"


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            "dodo.py": "from halo.dodo import *\n",
            ".halo/USER.md": "USER",
            ".halo/agents/a/agent.yaml": agent(),
            ".halo/agents/b/agent.yaml": agent(),
            ".halo/SOUL.md": "soul. " * 5_000,
            ".halo/settings.yaml": SETTINGS,
        }
    )


def said(done):
    return [line for line in done.stderr.splitlines() if "[context-truncated]" in line]


def test_a_build_with_nothing_to_do_says_it_once(ws):
    first = ws.cli("build")
    assert first.returncode == 0
    assert len(said(first)) > 1  # under each agent that was compiled
    for _ in range(3):
        again = ws.cli("build")
        assert again.stdout.endswith("targets: all fresh\n")
        (line,) = said(again)
        assert line.startswith("workspace:.halo/SOUL.md: warning: ")
        assert "of the 29,999 characters of SOUL.md are in the prompt" in line
        assert not passes(ws.builder)


def test_a_gate_that_was_open_is_closed(ws):
    ws.write({".halo/SOUL.md": "short"})
    ws.cli("build")
    assert ws.cli("build").stderr == ""
    ws.write({".halo/SOUL.md": "soul. " * 5_000})
    assert said(ws.cli("build"))
    assert said(ws.cli("build"))


def test_once_it_fits_nothing_is_said(ws):
    ws.cli("build")
    ws.write({".halo/SOUL.md": "short"})
    assert not said(ws.cli("build"))
    assert ws.cli("build").stderr == ""


def test_doit_says_it_too(ws):
    ws.doit()
    (line,) = said(ws.doit())
    assert "SOUL.md" in line


def test_halo_prompt_says_it_each_time(ws):
    for _ in range(3):
        assert len(said(ws.cli("prompt", "-a", "a"))) == 1
