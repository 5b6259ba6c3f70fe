"""Few-shots: what a conversation file may say, and what is said of one that may not (docs/reference/agent-yaml.md)."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, tree

from halo.cli.prompt import layer_table
from halo.errors import LayerError, TreeError
from halo.files.tree import MemoryTree, OverlayTree
from halo.models.prompt_counts import estimate_prompt
from halo.records.messages import Message, Text, ToolCall, ToolResult
from halo.workspace.agents import read_agent
from halo.workspace.fewshots import read_few_shots

FOLDER = ".halo/agents/a/fewshots"
TIDES = """\
- user: When is high water?
- assistant: I look it up.
  calls:
    - name: grep
      arguments: {pattern: high, path: tides.md}
    - name: file_read
      arguments:
        path: tides.md
- results:
    - "tides.md:3: high 12:40"
    - |
      1\tTides
      2\thigh 12:40
- assistant: At 12:40.
- user: Thanks.
- assistant: You are welcome.
"""


def files(**conversations):
    """An agent `a` with grep and file_read; `x="..."` is the file x.yaml."""
    return {
        ".halo/agents/a/agent.yaml": agent(tools=["grep", "file_read"]),
        ".halo/agents/a/AGENT.md": "BODY",
        **{f"{FOLDER}/{name}.yaml": text for name, text in conversations.items()},
    }


def manifest(more=(), /, **conversations):
    return compiled({**files(**conversations), **dict(more)}).manifest


def remarks(found):
    """What was said of the few-shots."""
    return [d for d in found.diagnostics if d.code.startswith("few-shot")]


def refusal(text, **options):
    with pytest.raises(LayerError) as caught:
        compiled({**files(x=text), **options})
    return caught.value


def test_a_conversation_becomes_messages():
    assert manifest(tides=TIDES).few_shots == (
        Message("user", (Text("When is high water?"),)),
        Message(
            "assistant",
            (
                Text("I look it up."),
                ToolCall("fewshot-1-1", "grep", '{"pattern": "high", "path": "tides.md"}'),
                ToolCall("fewshot-1-2", "file_read", '{"path": "tides.md"}'),
            ),
        ),
        Message(
            "user",
            (
                ToolResult("fewshot-1-1", "tides.md:3: high 12:40"),
                ToolResult("fewshot-1-2", "1\tTides\n2\thigh 12:40"),
            ),
        ),
        Message("assistant", (Text("At 12:40."),)),
        Message("user", (Text("Thanks."),)),
        Message("assistant", (Text("You are welcome."),)),
    )


def test_each_message_leads_to_its_file_and_line():
    found = manifest(tides=TIDES)
    assert [s.line for s in found.few_shot_sources] == [1, 2, 9, 14, 15, 16]
    assert {(s.source, s.scope) for s in found.few_shot_sources} == {
        (f"workspace:{FOLDER}/tides.yaml", "workspace")
    }
    assert all(s.tokens > 0 for s in found.few_shot_sources)


def test_they_are_no_part_of_the_text_but_of_what_a_model_is_told():
    plain = compiled(files())
    shown = compiled(files(tides=TIDES))
    assert shown.prompt == plain.prompt
    assert shown.manifest.fingerprint != plain.manifest.fingerprint
    assert plain.manifest.few_shots == plain.manifest.few_shot_sources == ()


def test_the_table_of_layers_has_a_row_for_each_file():
    found = manifest(b=TIDES, a="- user: x\n- assistant: y\n")
    lines = layer_table(found, estimate_prompt("", found)).splitlines()
    environment = next(i for i, line in enumerate(lines) if line.startswith("environment"))
    rows = [line.split() for line in lines[environment + 1 :]]
    for row, name, count in zip(rows, ("a", "b"), (2, 6), strict=False):
        assert row[:3] == [f"fewshots/{name}.yaml", "workspace", f"workspace:{FOLDER}/{name}.yaml"]
        assert row[-2:] == [str(count), "messages"]
    *shots, schemas, total = rows
    tokens = [int(row[3]) for row in shots]
    assert sum(tokens) == sum(s.tokens for s in found.few_shot_sources)
    assert schemas[:2] == ["tool", "schemas"]
    assert total[:2] == ["total", str(found.tokens + sum(tokens) + int(schemas[2]))]


HELLO = "- user: {0}\n- assistant: {0}!\n"


def test_files_follow_each_other_in_the_order_of_their_names():
    """Bytes decide, as in prompts folders."""
    found = manifest({f"{FOLDER}/{n}.yaml": HELLO.format(n) for n in ("b", "B", "a10", "a2")})
    assert [m.text for m in found.few_shots] == ["B", "B!", "a10", "a10!", "a2", "a2!", "b", "b!"]


def test_ids_of_calls_tell_file_and_call():
    found = manifest(a=HELLO.format("x"), b=TIDES, c=TIDES)
    ids = [call.id for message in found.few_shots for call in message.calls]
    assert ids == ["fewshot-2-1", "fewshot-2-2", "fewshot-3-1", "fewshot-3-2"]


def test_placeholders_are_text():
    found = manifest(x="- user: '{{now}} $1'\n- assistant: '{{user_name}}'\n")
    assert [m.text for m in found.few_shots] == ["{{now}} $1", "{{user_name}}"]
    assert [s.name for s in found.slots] == ["workspace_root"]


def test_a_turn_with_calls_needs_no_words():
    call = "calls: [{name: grep, arguments: {pattern: x}}]"
    for words in ("", '""', "'  '"):
        found = manifest(x=f"- user: u\n- assistant: {words}\n  {call}\n- results: ['']\n- assistant: done\n")
        assert [type(b) for b in found.few_shots[1].content] == [ToolCall]


def test_they_come_from_the_folder_that_serves_the_agent():
    other = {"global:agents/a/fewshots/g.yaml": HELLO.format("g")}
    assert manifest(other).few_shots == ()
    theirs = {"global:agents/a/agent.yaml": agent(), **other}
    found = compiled(theirs).manifest
    assert [s.scope for s in found.few_shot_sources] == ["global", "global"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"mode": "none"}, False), ({"mode": "minimal"}, True), ({"role": "sub"}, True), ({}, True)],
)
def test_the_identity_line_stands_alone(options, shown):
    assert bool(compiled(files(x=HELLO.format("x")), **options).manifest.few_shots) is shown


def test_an_internal_agent_keeps_its_own():
    internal = {".halo/agents/a/agent.yaml": agent(internal=True)}
    assert len(manifest(internal, x=HELLO.format("x")).few_shots) == 2


class TestOtherFiles:
    @pytest.mark.parametrize("name", ["x.yml", "x.json", "x.md", "README", "deep/x.yaml", "x.yaml/y"])
    def test_what_is_no_conversation_is_said(self, name):
        found = manifest({f"{FOLDER}/{name}": "text"})
        assert found.few_shots == ()
        (remark,) = remarks(found)
        assert (remark.code, remark.severity) == ("few-shot-file", "warning")
        assert remark.source == f"workspace:{FOLDER}/{name.partition('/y')[0].partition('/x')[0]}"

    def test_hidden_files_are_nobodys(self):
        found = manifest({f"{FOLDER}/.gitkeep": "", f"{FOLDER}/.x.yaml.swp": "x"})
        assert remarks(found) == []

    def test_a_blank_file_counts_as_absent(self):
        found = manifest(x="\n# later\n", y=HELLO.format("y"))
        assert [m.text for m in found.few_shots] == ["y", "y!"]
        assert remarks(found) == []

    def test_a_file_in_the_place_of_the_folder_is_said(self):
        found = manifest({FOLDER: "text"})
        assert [(d.code, d.source) for d in remarks(found)] == [("few-shot-file", f"workspace:{FOLDER}")]

    def test_a_link_to_nowhere_is_an_error(self, make_workspace):
        """Something that cannot be read must not look like something that is not there."""
        ws = make_workspace(files())
        for target in (ws.root / FOLDER, ws.root / FOLDER / "x.yaml"):
            target.symlink_to("nowhere")
            disk = ws.places.tree()
            with pytest.raises(TreeError, match="neither a file nor a folder"):
                read_few_shots(disk, read_agent(disk, "a"))
            target.unlink()
            target.mkdir() if target.name == "fewshots" else None

    def test_a_folder_of_any_size_costs_little(self):
        many = {f"{FOLDER}/{i}.yaml": HELLO.format(i) for i in range(101)}
        with pytest.raises(LayerError, match="101 conversations"):
            manifest(many)


BAD = {
    "no list": ("user: hello\n", 1, "a list of turns"),
    "nothing in it": ("[]\n", 1, "a list of turns"),
    "not a map": ("- hello\n", 1, "expected a map"),
    "unknown key": (HELLO.format("x") + "- usr: x\n", 3, "unknown key 'usr'"),
    "text that is none": ("- user: 1\n- assistant: x\n", 1, "expected text, got a whole number"),
    "two at once": ("- user: a\n  assistant: b\n", 1, "turn 1 must be"),
    "an empty map": (HELLO.format("x") + "- {}\n", 3, "turn 3 must be"),
    "calls of the user": ("- user: a\n  calls: [{name: grep}]\n", 1, "turn 1 must be"),
    "begins with the assistant": ("- assistant: a\n", 1, "`assistant` where `user` is to stand"),
    "user twice": ("- user: a\n- user: b\n", 2, "`user` where `assistant`"),
    "assistant twice": (HELLO.format("x") + "- assistant: a\n", 3, "`assistant` where `user`"),
    "ends with the user": (HELLO.format("x") + "- user: a\n", 3, "ends without its last `assistant`"),
    "ends with calls": (
        "- user: a\n- assistant: b\n  calls: [{name: grep, arguments: {pattern: x}}]\n",
        2,
        "ends without its last `results`",
    ),
    "ends with results": ("".join(TIDES.partition("- assistant: At")[:1]), 9, "last `assistant`"),
    "results without calls": (HELLO.format("x") + "- results: [a]\n", 3, "`results` where `user`"),
    "calls without results": (
        TIDES.partition("- results")[0] + "- assistant: x\n",
        9,
        "`assistant` where `results`",
    ),
    "a result too few": (TIDES.replace('    - "tides.md:3: high 12:40"\n', ""), 9, "1 results for 2 calls"),
    "a result too many": (TIDES.replace("    - |\n", "    - more\n    - |\n"), 9, "3 results for 2 calls"),
    "blank user": ("- user: ' '\n- assistant: a\n", 1, "turn 1 says nothing"),
    "blank assistant": ("- user: a\n- assistant:\n", 2, "turn 2 says nothing"),
    "unknown tool": (TIDES.replace("name: grep", "name: gerp"), 4, "has no tool 'gerp'"),
    "a tool of others": (TIDES.replace("name: grep", "name: shell_exec"), 4, "has no tool 'shell_exec'"),
    "unknown argument": (TIDES.replace("pattern: high", "patern: high"), 5, "no argument 'patern'"),
    "missing argument": (TIDES.replace("pattern: high, ", ""), 4, "wants the argument 'pattern'"),
    "unknown key in a call": (TIDES.replace("name: grep", "nam: grep"), 4, "unknown key 'nam'"),
    "no JSON": (TIDES.replace("pattern: high", "pattern: .nan"), 5, "cannot be written as JSON"),
    "bytes": (TIDES.replace("pattern: high", "pattern: !!binary aGk="), 5, "not valid YAML"),
    "half a character": ('- user: "\\ud800"\n- assistant: a\n', 1, "not valid YAML"),
    "broken YAML": ("- user: a\n- assistant: [\n", 2, "not valid YAML"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_conversation_is_an_error_at_its_line(name):
    text, line, message = BAD[name]
    error = refusal(text)
    assert (error.file, error.line) == (f"workspace:{FOLDER}/x.yaml", line)
    assert message in error.message


def test_near_misses_are_named():
    assert refusal(TIDES.replace("name: grep", "name: gerp")).hint == "did you mean 'grep'?"
    assert refusal(TIDES.replace("pattern: high", "patern: high")).hint == "did you mean 'pattern'?"
    assert refusal("- usr: x\n").hint == "did you mean 'user'?"


CALLING = "- user: u\n- assistant:\n  calls: [{name: %s, arguments: {%s}}]\n- results: [r]\n- assistant: a\n"


def test_tools_that_are_not_listed_but_granted_may_be_called():
    """The session tools come with a team, `activate_skill` with a skill."""
    delegating = {
        ".halo/agents/a/agent.yaml": agent(team=["a"], skills=["s"]),
        ".halo/skills/s/SKILL.md": "---\ndescription: d\n---\nx",
    }
    found = manifest(
        delegating, x=CALLING % ("session_list", ""), y=CALLING % ("activate_skill", "skill_id: s")
    )
    assert [c.name for m in found.few_shots for c in m.calls] == ["session_list", "activate_skill"]
    for name, arguments in (("session_list", ""), ("activate_skill", "skill_id: s")):
        assert f"no tool '{name}'" in refusal(CALLING % (name, arguments)).message


def test_a_conversation_with_a_tool_that_this_target_lacks_is_left_out_whole():
    """Half of it would be a call without its result, and all of it would teach what cannot be done."""
    layers = {
        **files(a=CALLING % ("shell_exec", "command: ls"), b=HELLO.format("b")),
        ".halo/agents/a/agent.yaml": agent(tools=["shell_exec"]),
    }
    assert len(compiled(layers).manifest.few_shots) == 6
    assert remarks(compiled(layers).manifest) == []
    readonly = compiled(layers, access="readonly").manifest
    assert [m.text for m in readonly.few_shots] == ["b", "b!"]
    assert [(d.code, d.severity, d.source) for d in remarks(readonly)] == [
        ("few-shots-left-out", "info", f"workspace:{FOLDER}/a.yaml")
    ]
    assert "shell_exec" in remarks(readonly)[0].message


words = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20).filter(
    str.strip
)
arguments = st.dictionaries(
    st.sampled_from(["pattern", "path", "include"]), st.text("ab {}\"'\\\n\té", max_size=8)
).map(lambda given: {"pattern": "x", **given})


@st.composite
def conversations(draw):
    turns = []
    for _ in range(draw(st.integers(1, 3))):
        turns.append({"user": draw(words)})
        for _ in range(draw(st.integers(0, 2))):
            made = draw(st.lists(arguments, min_size=1, max_size=3))
            turns.append(
                {"assistant": draw(words), "calls": [{"name": "grep", "arguments": a} for a in made]}
            )
            turns.append({"results": [draw(st.text("ab\n <é", max_size=9)) for _ in made]})
        turns.append({"assistant": draw(words)})
    return turns


@given(st.lists(conversations(), max_size=3))
def test_whatever_is_read_is_a_history(given):
    """It begins with the user, roles alternate, each call has its own id and its result in the next message."""
    texts = {f"c{i}": json.dumps(turns, ensure_ascii=False) for i, turns in enumerate(given)}
    found = manifest(**texts)
    assert len(found.few_shots) == sum(map(len, given)) == len(found.few_shot_sources)
    ids = []
    for i, message in enumerate(found.few_shots):
        assert message.role == ("assistant" if i % 2 else "user")
        assert message.content
        answered = [b.call_id for b in message.content if isinstance(b, ToolResult)]
        before = [c.id for c in found.few_shots[i - 1].calls] if i else []
        assert answered == before
        ids += [c.id for c in message.calls]
    assert len(ids) == len(set(ids))
    if found.few_shots:
        assert not found.few_shots[-1].calls
    written = [t["calls"] for turns in given for t in turns if "calls" in t]
    read = [[json.loads(c.arguments) for c in m.calls] for m in found.few_shots if m.calls]
    assert read == [[c["arguments"] for c in calls] for calls in written]
    msgspec.json.encode(found)


@given(st.binary(max_size=60) | st.text("-: usertaicl[]{}\n'\"|&*!", max_size=60).map(str.encode))
def test_whatever_stands_in_the_file_is_a_message_or_an_error_with_file_and_line(data):
    base = tree(files())
    assert isinstance(base, MemoryTree)
    source = f"workspace:{FOLDER}/x.yaml"
    where = (source, True)
    try:
        msgspec.json.encode(read_few_shots(OverlayTree(base, {source: data}), read_agent(base, "a")))
    except LayerError as error:
        where = (error.file, bool(error.line))
    assert where == (source, True)
