"""Tools of MCP servers in a prompt: from the lock alone."""

import json

import pytest
from making import MODEL, agent, compiled, prompt, tree

from halo.compiler.compile import compile_target
from halo.errors import LayerError
from halo.files.tree import RecordingTree
from halo.models.spelt_calls import reply_schema
from halo.records.targets import AgentTarget
from halo.workspace.mcp.lock import MCP_LOCK, Lock, LockedServer, LockedTool, render_lock

OBJECT = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Which."}},
    "required": ["path"],
}
READ = LockedTool("read", OBJECT, "Reads\na file.", {"readOnlyHint": True})
WRITE = LockedTool("write", {"type": "object"})


def lock(**servers):
    return render_lock(Lock(1, {name: LockedServer.of(tools) for name, tools in servers.items()}))


def workspace(*mcp, servers=None, settings="", **fields):
    locks = {"files": (WRITE, READ), "git": (READ,)} if servers is None else servers
    files = {".halo/agents/a/agent.yaml": agent(mcp=list(mcp), **fields), MCP_LOCK: lock(**locks)}
    return {**files, ".halo/settings.yaml": settings} if settings else files


def names(files, **options):
    return [tool.name for tool in compiled(files, **options).manifest.tools]


def error(files):
    with pytest.raises(LayerError) as caught:
        compiled(files)
    assert caught.value.file.endswith("agent.yaml")
    return caught.value


class TestTheToolList:
    def test_all_tools_of_a_server_by_name_behind_the_builtin_ones(self):
        files = workspace("files", tools=["file_read", "draft"], skills=["s"])
        files[".halo/skills/s/SKILL.md"] = "---\nname: s\ndescription: d\n---\nx\n"
        assert names(files) == [
            "file_read",
            "draft",
            "mcp__files__read",
            "mcp__files__write",
            "session_status",
            "activate_skill",
        ]

    def test_servers_stand_in_the_order_of_agent_yaml_and_each_tool_once(self):
        assert names(workspace("git", "files/write", "files")) == [
            "mcp__git__read",
            "mcp__files__write",
            "mcp__files__read",
            "session_status",
        ]

    def test_one_tool_of_a_server(self):
        assert names(workspace("files/write")) == ["mcp__files__write", "session_status"]

    def test_a_tool_is_told_as_it_was_locked(self):
        tool = compiled(workspace("files/read")).manifest.tools[0]
        assert (tool.description, tool.parameters, tool.access) == ("Reads\na file.", OBJECT, "workspace")
        assert "mcp__files__read, session_status. Only use" in prompt(workspace("files/read"))

    def test_one_without_description_says_where_it_is_from(self):
        assert compiled(workspace("files/write")).manifest.tools[0].description == (
            "The tool write of the MCP server files."
        )

    def test_the_runtime_knows_what_a_name_means(self):
        (origin,) = compiled(workspace("files/read")).manifest.runtime.mcp
        assert (origin.name, origin.server, origin.tool) == ("mcp__files__read", "files", "read")
        assert origin.digest == READ.digest

    def test_who_only_reads_gets_none_whatever_a_server_says_of_itself(self):
        assert names(workspace("files"), access="readonly") == ["session_status"]
        assert compiled(workspace("files"), access="readonly").manifest.runtime.mcp == ()
        assert "mcp__files__read" in names(workspace("files"), access="workspace")

    def test_the_names_lead_to_the_line_that_lists_them(self):
        made = compiled(workspace("files", tools=["file_read"]))
        (segment,) = [s for s in made.manifest.segments if s.kind == "tools"]
        data = made.prompt.encode()
        said = {data[s.start : s.end].decode(): s.line for s in segment.spans}
        assert said[", mcp__files__read, mcp__files__write"] == 1  # `mcp:` is the first line
        assert said[", session_status"] == 2

    def test_a_model_without_a_tool_protocol_reads_them_on_one_line_each(self):
        told = workspace("files", model={**MODEL, "tool_mode": "schema"})
        lines = prompt(told).splitlines()
        assert '- mcp__files__read {"path": string}: Reads a file.' in lines
        assert "- mcp__files__write {}: The tool write of the MCP server files." in lines

    def test_kinds_of_a_foreign_schema_are_read_as_far_as_they_are_said(self):
        schema = {"type": "object", "properties": {"a": {}, "b": {"type": ["string", "null"]}, "c": True}}
        told = workspace(
            "x", servers={"x": (LockedTool("t", schema),)}, model={**MODEL, "tool_mode": "schema"}
        )
        assert 't {"a"?: any, "b"?: string | null, "c"?: any}' in prompt(told)


class TestWhatIsRefused:
    DEFINED = json.dumps({"general": {"mcp": {"servers": {"late": {"command": ["x"]}}}}})

    def test_a_server_that_is_defined_and_not_locked(self):
        found = error(workspace("files", "late", settings=self.DEFINED))
        assert found.message == "the MCP server 'late' is not in mcp.lock.json"
        assert (found.line, found.hint) == (1, "halo mcp lock late")

    def test_a_server_that_nothing_knows(self):
        found = error(workspace("flies", settings=self.DEFINED))
        assert (found.message, found.hint) == ("unknown MCP server 'flies'", "did you mean 'files'?")
        assert error(workspace("x", servers={})).hint == "general.mcp.servers in settings.yaml defines none"

    def test_a_tool_that_is_not_locked(self):
        found = error(workspace("files/raed"))
        assert found.message == "the MCP server 'files' is not locked with a tool 'raed'"
        assert found.hint == "did you mean 'read'?"

    def test_a_lock_that_was_edited(self):
        files = workspace("files")
        files[MCP_LOCK] = files[MCP_LOCK].replace(b"a file", b"all files")
        with pytest.raises(LayerError, match="not what was locked"):
            compiled(files)


class TestStrangersTexts:
    HOSTILE = LockedTool(
        "say it.now",
        {"type": "object", "oneOf": [], "properties": {"a": {"description": "x\u202ey"}}},
        "Say\x1b[31m \u200bit",
    )

    def offer(self):
        tool = LockedTool("say.it", self.HOSTILE.input_schema, self.HOSTILE.description)
        return compiled(workspace("x", servers={"x": (tool,)}))

    def test_hidden_characters_do_not_reach_the_model_and_are_said(self):
        made = self.offer()
        (tool, _) = made.manifest.tools
        assert tool.description == "Say [31m  it"
        assert tool.parameters["properties"]["a"] == {"description": "x y"}
        (said,) = [d for d in made.manifest.diagnostics if d.code == "hidden-characters"]
        assert said.source == MCP_LOCK
        assert "U+200B ZERO WIDTH SPACE" in said.message
        assert "RIGHT-TO-LEFT OVERRIDE" in said.message

    def test_what_was_adapted_is_said(self):
        made = self.offer()
        assert [d.message for d in made.manifest.diagnostics if d.code == "mcp-tool-adapted"] == [
            "x/say.it is called mcp__x__say_it",
            "x/say.it: oneOf at the top of its schema is left out; no provider takes it",
        ]

    def test_a_name_that_no_lock_holds_is_refused(self):
        with pytest.raises(LayerError, match="its name is not one"):
            compiled(workspace("x", servers={"x": (self.HOSTILE,)}))


class TestInputs:
    def parts(self, *mcp):
        recording = RecordingTree(tree(workspace(*mcp)), lambda: 0)
        compile_target(recording, AgentTarget("a"))
        return [i.part for i in recording.inputs() if i.path == MCP_LOCK]

    def test_an_agent_rests_on_the_servers_that_it_uses(self):
        assert self.parts("files") == ["mcp/files"]
        assert self.parts("files/read", "git") == ["mcp/files", "mcp/git"]
        assert self.parts() == []


def test_a_changed_lock_rebuilds_who_uses_it(make_workspace):
    ws = make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(mcp=["files"]),
            ".halo/agents/b/agent.yaml": agent(mcp=["git"]),
            ".halo/agents/c/agent.yaml": agent(),
            ".halo/mcp.lock.json": lock(files=(READ,), git=(READ,)).decode(),
        }
    ).without_templates()
    targets = [AgentTarget(name) for name in "abc"]
    before = [ws.builder.ensure(target).id for target in targets]
    ws.write({".halo/mcp.lock.json": lock(files=(READ, WRITE), git=(READ,)).decode()})
    fresh = [ws.builder.fresh(target) is not None for target in targets]
    after = [ws.builder.ensure(target).id for target in targets]
    assert [x != y for x, y in zip(before, after, strict=True)] == [True, False, False]
    assert fresh == [False, True, True]


def test_what_a_schema_refers_to_in_itself_is_found_in_the_schema_of_a_reply():
    """Of a model without a tool protocol; each reference is followed to where it leads."""
    schema = {
        "type": "object",
        "$defs": {"name": {"type": "string"}},
        "properties": {"who": {"$ref": "#/$defs/name"}, "all": {"$ref": "#"}},
    }
    made = compiled(workspace("git", "x", servers={"x": (LockedTool("t", schema),), "git": (READ,)}))
    reply = reply_schema(made.manifest.tools)
    arguments = reply["anyOf"][2]["properties"]["arguments"]

    def follow(reference):
        found = reply
        for step in reference.removeprefix("#/").split("/"):
            found = found[int(step) if isinstance(found, list) else step]
        return found

    assert follow(arguments["properties"]["who"]["$ref"]) == {"type": "string"}
    assert follow(arguments["properties"]["all"]["$ref"]) is arguments
