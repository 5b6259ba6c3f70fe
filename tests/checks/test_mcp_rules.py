"""What `halo check` says of MCP servers and of what they say of themselves."""

import json

from test_rules import found

from halo.workspace.mcp.lock import MCP_LOCK, Lock, LockedServer, LockedTool, render_lock

HERE = ".halo/settings.yaml"


def settings(server):
    return {HERE: json.dumps({"general": {"mcp": {"servers": {"s": server}}}}, indent=1)}


class TestCommittedSecrets:
    def findings(self, server):
        return [message.partition(" ")[0] for _, _, message in found("committed-secret", **settings(server))]

    def test_a_literal_header_that_authorizes(self):
        server = {"url": "https://h.example", "headers": {"Authorization": "Bearer abc", "X-Team": "blue"}}
        assert self.findings(server) == ["general.mcp.servers.s.headers.Authorization"]
        ((source, line, _),) = found("committed-secret", **settings(server))
        assert (source, line) == (f"workspace:{HERE}", 8)

    def test_a_literal_token_of_a_program(self):
        server = {"command": ["x"], "env": {"API_TOKEN": "q8Zr2LwP0xVb7NtK", "MODE": "fast"}}
        assert self.findings(server) == ["general.mcp.servers.s.env.API_TOKEN"]

    def test_names_of_variables_are_fine(self):
        assert self.findings({"command": ["x"], "env": {"API_TOKEN": "<<API_TOKEN>>"}}) == []
        assert self.findings({"url": "https://h.example", "headers": {"Authorization": "Bearer <<T>>"}}) == []


def test_hidden_characters_of_a_locked_tool_and_what_was_adapted():
    tool = LockedTool("re.ad", {"type": "object"}, "Reads\u202e.")
    files = {
        ".halo/agents/helper/agent.yaml": "model: {provider: openai, id: m}\ndescription: helps\nmcp: [s]\n",
        MCP_LOCK: render_lock(Lock(1, {"s": LockedServer.of((tool,))})),
    }
    assert found("hidden-characters", **files) == [
        (MCP_LOCK, 0, "s/re.ad holds characters that nobody sees: U+202E RIGHT-TO-LEFT OVERRIDE")
    ]
    assert found("mcp-tool-adapted", **files) == [(MCP_LOCK, 0, "s/re.ad is called mcp__s__re_ad")]
