"""The first run with real processes and the real client, against a server that plays the model.

`tests/sessions/test_bootstrap.py` has the cases; here it is the whole way.
"""

import json

import pytest
from making import agent

TOOLS = ["file_read", "file_write", "file_edit"]
USER = "---\nuser_name: Mira\nai_name: Pip\n---\n\n- Write in Norwegian; short answers.\n"


@pytest.fixture
def ws(make_workspace, scripted):
    """A workspace without USER.md, with the prompts that come with Halo."""
    model = {"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1"}
    return make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=model, tools=TOOLS),
            ".halo/agents/default/AGENT.md": "You keep the harbour's maps.\n",
        }
    )


def says(server, delta, finish="stop"):
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
    choices = [
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    server.says_chat(*({**head, "choices": [choice]} for choice in choices))


def calls(server, name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    says(
        server,
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}]},
        "tool_calls",
    )


def turn(ws, *arguments):
    done = ws.cli("run", *arguments, OPENAI_API_KEY="sk-test-key")
    assert done.returncode == 0, done.stderr
    return done.stdout


def system(request):
    (first, *_) = request.json["messages"]
    assert first["role"] in ("system", "developer")
    return first["content"]


def tools(request):
    return {tool["function"]["name"] for tool in request.json.get("tools", ())}


def results(request):
    return [message["content"] for message in request.json["messages"] if message["role"] == "tool"]


def trust(ws):
    done = ws.cli("trust", "-y")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("access", ["workspace", "full"])
def test_the_agent_writes_who_the_user_is_and_the_next_turn_knows(ws, scripted, access):
    trust(ws)
    says(scripted, {"content": "Hello. Who are you?"})
    turn(ws, "--access", access, "Hi.")
    calls(scripted, "file_write", path=".halo/USER.md", content=USER)
    says(scripted, {"content": "Nice to meet you, Mira."})
    assert turn(ws, "--access", access, "I am Mira. Norwegian, please; I call you Pip.") == (
        "Nice to meet you, Mira.\n"
    )
    says(scripted, {"content": "Hei, Mira."})
    turn(ws, "--access", access, "And now?")

    first, second, with_result, third = scripted.requests
    for request in (first, second, with_result):  # a turn keeps the prompt that it began with
        assert "## First run" in system(request)
        assert "## User Profile" not in system(request)
        assert "file_write" in tools(request)
    assert results(with_result) == [f"made .halo/USER.md: 6 lines, {len(USER)} bytes"]
    assert (ws.halo / "USER.md").read_text() == USER
    assert "## First run" not in system(third)
    assert "## User Profile" in system(third)
    assert "Write in Norwegian" in system(third)
    assert results(third) == results(with_result)  # the same session goes on


def test_what_the_agent_learns_later_it_edits_in(ws, scripted):
    trust(ws)
    ws.write({".halo/USER.md": USER})
    calls(scripted, "file_edit", path=".halo/USER.md", old_string="Norwegian", new_string="Danish")
    says(scripted, {"content": "Done."})
    turn(ws, "Danish from now on.")
    says(scripted, {"content": "Ja."})
    turn(ws, "And now?")
    before, _, after = scripted.requests
    assert "Write in Norwegian" in system(before)
    assert "Write in Danish" in system(after)


def test_in_a_workspace_that_was_never_trusted_the_user_is_asked_to_save_it(ws, scripted):
    says(scripted, {"content": "Hello."})
    done = ws.cli("run", "Hi.", OPENAI_API_KEY="sk-test-key")
    (request,) = scripted.requests
    assert "If you have no tool that writes files" in system(request)
    assert tools(request) & set(TOOLS) == {"file_read"}
    assert "halo trust" in done.stderr
    assert not (ws.halo / "USER.md").exists()
