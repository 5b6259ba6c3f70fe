"""MCP servers in settings: what a definition may be, whose file counts, what a workspace must ask for."""

import json

import pytest
from making import agent, tree

from halo.errors import LayerError
from halo.workspace.demands import Demands, read_demands
from halo.workspace.mcp.defined import defined_servers
from halo.workspace.mcp.servers import is_loopback_address
from halo.workspace.settings.general import read_general
from halo.workspace.trust import Grants

HERE = ".halo/settings.yaml"
MACHINE = "secrets:settings.yaml"
FILES = {"command": ["files-server", "--root", "."]}
FAR = {"url": "https://tools.example.com/mcp?team=a", "headers": {"Authorization": "Bearer <<TOKEN>>"}}


def servers(**defined):
    return json.dumps({"general": {"mcp": {"servers": defined}}})


def refused(definition, *, name="s"):
    """(line, message) of the error for one server, each key on a line of its own."""
    lines = "".join(f"        {key}: {json.dumps(value)}\n" for key, value in definition.items())
    text = f"general:\n  mcp:\n    servers:\n      {json.dumps(name)}:\n{lines}"
    with pytest.raises(LayerError) as error:
        read_general(tree({HERE: text}))
    assert error.value.file == f"workspace:{HERE}"
    return error.value.line, error.value.message


class TestADefinition:
    def test_is_a_command_or_an_address(self):
        found = defined_servers(tree({HERE: servers(files=FILES, far=FAR)}))
        assert list(found) == ["far", "files"]
        assert found["files"].server.command == ("files-server", "--root", ".")
        assert found["far"].server.headers == {"Authorization": "Bearer <<TOKEN>>"}

    @pytest.mark.parametrize("definition", [{}, {**FILES, **FAR}])
    def test_and_never_both_or_neither(self, definition):
        assert refused({**definition, "call_seconds": 5})[1] == "a server has either a command or a url"

    @pytest.mark.parametrize(
        ("definition", "line", "message"),
        [
            ({**FILES, "headers": {"A": "b"}}, 6, "only a server with a url has headers"),
            ({**FAR, "env": {"A": "b"}}, 7, "only a server with a command has env"),
            ({**FAR, "cwd": "x"}, 7, "only a server with a command has cwd"),
            ({"command": [""]}, 5, "the first word of a command is the program"),
            ({"command": ["a", "b\0"]}, 5, "NUL cannot stand in a command"),
            ({**FILES, "env": {"A B": "c"}}, 6, "'A B' is not a variable of an environment"),
            ({**FILES, "envv": {}}, 6, "unknown key 'envv' in general.mcp.servers.s"),
            (
                {**FILES, "call_seconds": 0},
                6,
                "general.mcp.servers.s.call_seconds: expected a number above 0",
            ),
            ({"url": "https://h", "headers": {"Host": "x"}}, 6, "Host is set by the protocol"),
            (
                {"url": "https://h", "headers": {"mcp-session-id": "x"}},
                6,
                "mcp-session-id is set by the protocol",
            ),
            ({"url": "https://h", "headers": {"A": "x\r\nB: y"}}, 6, "'A': a header is printable ASCII"),
        ],
    )
    def test_errors_name_the_line(self, definition, line, message):
        assert refused(definition) == (line, message)

    @pytest.mark.parametrize(
        "url",
        [
            "ftp://h/x",
            "https://user:key@h/x",
            "https://h/x#part",
            "https://h\\@evil/x",
            "https://h:0/x",
            "https://h:99999/x",
            "https:///x",
            "https://hé/x",
            "h/x",
        ],
    )
    def test_an_address_is_plain(self, url):
        assert refused({"url": url})[1] == "not a plain http or https address"

    def test_http_is_for_this_machine_alone(self):
        assert refused({"url": "http://tools.example.com/mcp"})[1].startswith(
            "http is for this machine alone"
        )
        for host in ("127.0.0.1:8000", "localhost", "[::1]:9"):
            assert "s" in defined_servers(tree({HERE: servers(s={"url": f"http://{host}/mcp"})}))

    @pytest.mark.parametrize("url", ["http://localhost.evil.com/", "http://127.1/", "http://10.0.0.1/", "x"])
    def test_what_only_looks_like_this_machine_is_not(self, url):
        assert not is_loopback_address(url)

    @pytest.mark.parametrize("name", ["a b", "a/b", "", "-a", "a" * 101, "é"])
    def test_a_name_is_an_id(self, name):
        assert refused(FILES, name=name)[1] == f"{name!r} is not a name for a server"


class TestWhoseFileCounts:
    def test_the_workspace_hides_the_machine_whole(self):
        """The headers of one file never go to the address of another."""
        files = {HERE: servers(s={"url": "https://here.example"}), MACHINE: servers(s=FAR, own=FILES)}
        found = defined_servers(tree(files))
        assert found["s"].server.headers == {}
        assert (found["s"].scope, found["own"].scope) == ("workspace", "global")
        assert read_general(tree(files)).mcp.servers["s"].headers == {}


class TestTrust:
    def test_every_server_of_the_workspace_is_asked_for(self):
        asked = read_demands(tree({HERE: servers(files=FILES, far=FAR), MACHINE: servers(own=FILES)})).mcp
        assert [name for name, _ in asked] == ["far", "files"]
        assert json.loads(asked[1][1]) == FILES

    def test_only_what_was_allowed_may_be_used(self):
        before, after = tree({HERE: servers(s=FILES)}), tree({HERE: servers(s={"command": ["other"]})})
        grants = Grants(read_demands(before))
        assert grants.server("s", defined_servers(before)["s"])
        assert not grants.server("s", defined_servers(after)["s"])
        assert not Grants().server("s", defined_servers(before)["s"])

    @pytest.mark.parametrize(
        "change",
        [
            {"command": ["files-server", "--root", "/"]},
            {"env": {"TOKEN": "<<AWS_SECRET_ACCESS_KEY>>"}},
            {"env": {"LD_PRELOAD": "./evil.so"}},
            {"cwd": "elsewhere"},
        ],
    )
    def test_any_change_asks_again(self, change):
        first = read_demands(tree({HERE: servers(s=FILES)}))
        second = read_demands(tree({HERE: servers(s={**FILES, **change})}))
        assert second.among(first.digests) == Demands()

    def test_the_machine_s_own_servers_need_none(self):
        machine = tree({MACHINE: servers(s=FILES)})
        assert read_demands(machine).mcp == ()
        assert Grants().server("s", defined_servers(machine)["s"])
        assert Grants(bundled=True).server("s", defined_servers(machine)["s"])

    def test_one_that_hides_the_machine_s_is_the_workspace_s(self):
        files = tree({HERE: servers(s=FILES), MACHINE: servers(s=FILES)})
        assert not Grants().server("s", defined_servers(files)["s"])

    def test_an_agent_that_uses_one_does_more_than_read(self):
        """Also of the machine's: its server acts with the user's own rights."""
        files = {".halo/agents/a/agent.yaml": agent(mcp=["own"]), MACHINE: servers(own=FILES)}
        assert ("a", "mcp:own") in read_demands(tree(files)).access
