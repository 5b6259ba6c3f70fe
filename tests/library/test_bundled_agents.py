"""Agents of an unpacked bundle: they load and read, and no more, whatever their prompts offer and who asks."""

import asyncio
import json
import shutil

import pytest
from making import agent as agent_yaml
from playing import Player, says

from halo import Agent, Workspace, tool
from halo.cli.main import run as halo
from halo.errors import ArtifactError, UnknownNameError, UsageError
from halo.records.messages import Message, ToolCall, ToolResult

FILES = {
    ".halo/USER.md": "Mira.\n",
    ".halo/agents/default/agent.yaml": agent_yaml(tools=["file_read", "file_write", "shell_exec"]),
    ".halo/agents/default/AGENT.md": "You keep the log of the harbour.\n",
    "a.md": "one\n",
}
ACCESS = pytest.mark.parametrize("access", [None, "full", "workspace", "readonly"])


@pytest.fixture
def origin(ws):
    """The workspace whose layers are packed. The user trusts it, as one that was made here is trusted."""
    return ws.write(FILES)


@pytest.fixture
def there(origin, make_workspace):
    """A folder of another machine that the bundle was unpacked into; there are files, and no layer."""
    packed = str(origin.root / "x.halo.tar")
    assert origin.cli("bundle", "-o", packed).returncode == 0
    made = make_workspace({"a.md": "one\n"})
    shutil.rmtree(made.halo)
    assert made.cli("bundle", "--unpack", packed).returncode == 0
    return made


def opened(place, **options):
    return Workspace(place.root, environ=place.environ(), **options)


def load(place, *replies, **options):
    player = Player(*replies)
    return Agent.load(opened(place), adapter=player, **options), player


def calling(name, **arguments):
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),))


def results(turn):
    return [block for m in turn.messages for block in m.content if isinstance(block, ToolResult)]


def turn_of(place, access):
    """A turn that reads, writes and runs a command, and the agent that it was a turn of."""
    agent, player = load(
        place,
        calling("file_read", path="a.md"),
        calling("file_write", path="b.md", content="two\n"),
        calling("shell_exec", command="touch c.md"),
        says("That was all."),
        access=access,
    )
    return asyncio.run(agent.generate_text("Keep the log.")), agent, player


@ACCESS
def test_its_turns_run_and_what_changes_something_is_refused(there, access):
    turn, agent, player = turn_of(there, access)
    assert (turn.text, turn.reason) == ("That was all.", "done")
    read, written, ran = results(turn)
    assert (read.is_error, written.is_error, ran.is_error) == (False, True, True)
    assert "1\tone" in read.text
    assert sorted(path.name for path in there.root.iterdir()) == [".halo", "a.md"]
    # The prompt is the one that was packed, byte for byte, so the program is told what will be refused.
    assert "You keep the log of the harbour." in player.requests[0].prefix.system
    assert agent.notices == ("note: file_write, shell_exec will be refused: agents of a bundle only read",)


@ACCESS
def test_the_same_agent_in_its_workspace_may_do_what_is_asked_for(origin, access, monkeypatch):
    """So what is refused above is refused because of the bundle, and not because of what was asked for."""
    monkeypatch.chdir(origin.root)
    monkeypatch.setenv("HALO_HOME", str(origin.home))
    assert halo(["trust", "--yes"]) == 0
    if access == "readonly":
        agent, _ = load(origin, access=access)
        assert "file_write" not in [spec.name for spec in agent.prefix.tools]
        return
    turn, _, _ = turn_of(origin, access)
    assert not results(turn)[1].is_error
    assert (origin.root / "b.md").read_text() == "two\n"


@ACCESS
def test_halo_run_may_be_asked_for_any_access_too(there, access, monkeypatch, capfd):
    """It comes as far as the model, for which there is no key."""
    monkeypatch.chdir(there.root)
    monkeypatch.setenv("HALO_HOME", str(there.home))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("HALO_CACHE", str(there.home / "cache"))
    asked = [] if access is None else ["--access", access]
    assert halo(["run", "-n", *asked, "Hello"]) == 3
    assert "the key of openai is not set" in capfd.readouterr().err


def test_what_would_change_a_prompt_is_refused_and_no_template_takes_its_place(there):
    """A template has an agent of the same name, which could be compiled here."""

    @tool(read_only=True)
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    with pytest.raises(UsageError, match="unpacked from a bundle"):
        load(there, tools=[double])
    with pytest.raises(UsageError, match="unpacked from a bundle"):
        Agent.load(opened(there, layers={".halo/USER.md": "Somebody else.\n"}), adapter=Player())
    agent, _ = load(there)
    before = agent.prefix
    with pytest.raises(UsageError, match="unpacked from a bundle"):
        agent.add_tools(double)
    with pytest.raises(UsageError, match="unpacked from a bundle"):
        agent.set_layers({".halo/USER.md": "Somebody else.\n"})
    assert agent.prefix is before
    assert agent.reload() is None


def test_only_agents_of_the_bundle_are_there(origin, there):
    assert opened(there).agents() == opened(origin).agents()
    there.write({"global:agents/mine/AGENT.md": "You are mine.\n"})
    assert "mine" not in opened(there).agents()
    with pytest.raises(UnknownNameError, match="mine"):
        load(there, agent="mine")
    with pytest.raises(ArtifactError, match="not in the bundle"):
        load(there, directory="docs")
