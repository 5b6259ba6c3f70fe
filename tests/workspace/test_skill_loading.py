"""Loading a skill: whatever an editor, another program or another file system made of SKILL.md, it loads.

Only what cannot be read at all is left out, with a diagnostic. What is read in another way than it is written
is said in the skill's own manifest, and in no agent's.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, prompt, skill, tree

from halo.build.targets import default_targets
from halo.errors import LayerError, TreeError, UnknownNameError
from halo.files.canonical import canonical_text
from halo.files.tree import DiskTree
from halo.records.targets import AgentTarget, SkillTarget
from halo.workspace.skills.front import read_skill_file
from halo.workspace.skills.reading import front_matter, list_resources, read_skill, read_skill_text

LISTING = {".halo/agents/a/agent.yaml": agent(skills=["s", "t"]), ".halo/agents/a/AGENT.md": "BODY"}
TRUNK = "---\nname: S\ndescription: does it\n---\n\nSTEPS\n"


def load(text, file="SKILL.md"):
    """The skill `s` with this file."""
    return read_skill(tree({f".halo/skills/s/{file}": text}), "s")


def body(text):
    """Body and its first line."""
    source = tree({".halo/skills/s/SKILL.md": text})
    layer = read_skill_text(source, read_skill(source, "s")).layer
    return layer.body, layer.line


def remarks(text, file="SKILL.md"):
    """Code and line of what is said about it, but for the description."""
    found = compiled({f".halo/skills/s/{file}": text}, SkillTarget("s")).manifest.diagnostics
    return [(d.code, d.line) for d in found if d.code != "skill-without-description"]


def about_skills(made):
    return [d for d in made.manifest.diagnostics if d.code.startswith("skill-")]


def in_front(*lines):
    return "\n".join(["---", *lines, "---", "", "STEPS", ""])


class TestSpellings:
    """The same skill in every spelling that canonical text knows: nothing to remark."""

    @pytest.mark.parametrize(
        "text",
        [
            TRUNK,
            "\ufeff" + TRUNK,
            TRUNK.replace("\n", "\r\n"),
            TRUNK.replace("\n", "\r"),
            "\ufeff\ufeff" + TRUNK.replace("\n", "\r\n"),
            TRUNK.rstrip("\n"),
            TRUNK + "\n\n",
        ],
    )
    def test_marks_and_line_ends(self, text):
        found = load(text)
        assert (found.name, found.description, found.name_line, found.description_line) == (
            "S",
            "does it",
            2,
            3,
        )
        assert body(text) == ("STEPS", 6)
        assert remarks(text) == []

    @pytest.mark.parametrize(
        ("lines", "description"),
        [
            (["description: >", "  folded", "  text"], "folded text"),
            (["description: >-", "  folded", "", "  text"], "folded text"),
            (["description: |", "  literal", "  text"], "literal text"),
            (["description: |2", "  literal"], "literal"),
            (["description: plain", "  over two lines"], "plain over two lines"),
            (["description: 'it''s'"], "it's"),
            (['description: "a: b"'], "a: b"),
            (["description: no"], "no"),
            (["description: 2026-10-02"], "2026-10-02"),
            (["description: 1.10"], "1.10"),
            (["description: 010"], "010"),
            (["description: true"], "true"),
            (["description: ~"], ""),
            (["description:"], ""),
            (["description: a # remark"], "a"),
            (["{description: flow, name: [x]}"], "flow"),
        ],
    )
    def test_values_are_the_text_that_their_author_wrote(self, lines, description):
        assert load(in_front("name: S", *lines) if lines[0][0] != "{" else in_front(*lines)).description == (
            description
        )

    def test_extra_keys_mean_nothing(self):
        text = in_front(
            "name: S",
            "description: d",
            "license: MIT",
            "compatibility: [all]",
            'metadata: {"x": {"emoji": "y", "bins": ["z"]}}',
            "mcp: [rube]",
            "homepage: https://example.com",
            "version: 1.0",
        )
        assert (load(text).description, remarks(text), body(text)) == ("d", [], ("STEPS", 12))


class TestYamlThatIsNone:
    """The parser's refusal of one value costs that value at most."""

    @pytest.mark.parametrize(
        ("line", "description"),
        [
            ("description: Use when: the user asks", "Use when: the user asks"),
            ("description: TL;DR: 23 plays # and more", "TL;DR: 23 plays # and more"),
            ("description: [a] [b]", "[a] [b]"),
            ("description: , it might", ", it might"),
            ('description: "He said "hi" there"', 'He said "hi" there'),
            ('description: "never closed', '"never closed'),
            ("description: *all files", "*all files"),
            ("description: @home", "@home"),
            ("description: `code` first", "`code` first"),
            ("description: %percent", "%percent"),
            ("description: !!python/object:os.system x", "!!python/object:os.system x"),
            ("description: {{placeholder}}", "{{placeholder}}"),
            ("description: a\x80b", "a b"),
        ],
    )
    def test_a_value_that_needs_quotes_is_taken_as_it_stands(self, line, description):
        text = in_front("name: S", line, "user-invocable: false")
        found = load(text)
        assert (found.name, found.description, found.user_invocable) == ("S", description, False)
        assert (found.name_line, found.description_line) == (2, 3)
        assert remarks(text) == [("skill-front-matter", 3)]
        assert body(text) == ("STEPS", 7)

    def test_only_the_value_that_is_broken_is_taken_as_text(self):
        text = in_front(
            "name: 'S'", "description: >", "  a: b", "  c", "", "metadata: {x: [}", "user-invocable: false"
        )
        found = load(text)
        assert (found.name, found.description, found.user_invocable) == ("S", "a: b c", False)
        assert remarks(text) == [("skill-front-matter", 7)]

    def test_a_description_over_several_lines_that_is_not_indented(self):
        text = in_front("name: S", "description: first: one", "second line", "third", "user-invocable: no")
        assert load(text).description == "first: one second line third"
        assert not load(text).user_invocable

    def test_tabs(self):
        text = in_front("name:\tS", "description: a", "\tb: c", "tags:", "\t- x")
        assert (load(text).name, load(text).description) == ("S", "a b: c")

    def test_a_key_twice_the_first_counts(self):
        text = in_front("name: S", "description: one", "description: two")
        assert load(text).description == "one"
        assert remarks(text) == [("skill-front-matter", 4)]

    @pytest.mark.parametrize("lines", [["description:", "  - a", "  - b"], ["description:", "  Use when: x"]])
    def test_a_description_that_is_no_text_is_read_as_one(self, lines):
        text = in_front("name: S", *lines)
        assert load(text).description == " ".join(line.strip() for line in lines[1:])
        assert remarks(text) == [("skill-front-matter", 3)]

    def test_an_alias_bomb_is_no_bomb(self):
        bomb = [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" if i else "k0: &a0 [x]" for i in range(20)]
        text = in_front("name: S", "description: d", *bomb)
        assert load(text).description == "d"

    def test_endless_front_matter_is_read_to_a_limit_and_said_so(self):
        text = in_front("name: S", "description: d", *(f"k{i}: x" for i in range(100_000)))
        assert (load(text).name, load(text).description) == ("S", "d")
        assert [code for code, _ in remarks(text)] == ["skill-front-matter"]
        assert body(text)[0] == "STEPS"


class TestDividers:
    @pytest.mark.parametrize(
        ("text", "said", "line"),
        [
            ("\n\n" + TRUNK, [3], 8),
            (TRUNK.replace("---", "--- "), [1, 4], 6),
            (TRUNK.replace("does it\n---\n", "does it\n"), [2], 5),
            (TRUNK.replace("\n---\n\n", "\n  ---\n\n"), [4], 6),
            (TRUNK.replace("---\n", ""), [1], 4),
            ("---\nname: S\ndescription: does it\n\n# STEPS\n\nprose here\n\n---\n\nmore", [3], 5),
        ],
    )
    def test_front_matter_is_recognized_without_them(self, text, said, line):
        found = load(text)
        assert (found.name, found.description) == ("S", "does it")
        assert remarks(text) == [("skill-front-matter", number) for number in said]
        text, first = body(text)
        assert (text.lstrip("# ").startswith("STEPS"), first) == (True, line)

    def test_an_indented_divider_ends_a_literal_description(self):
        text = "---\nname: S\ndescription: |\n  one\n    two\n    ---\n\n    STEPS\n"
        assert load(text).description == "one two"
        assert body(text) == ("STEPS", 8)

    def test_nothing_but_front_matter(self):
        assert load("---\nname: S\ndescription: d\n").description == "d"
        assert body("---\nname: S\ndescription: d\n---\n") == ("", 5)

    @pytest.mark.parametrize(
        "text",
        [
            "STEPS",
            "# Title\n\nname: x",
            "---\nprose\n---\nmore",
            "---\n- a\n---\nb",
            "---\n# T\n\nNote: x",
            "name: x\n\nb",
        ],
    )
    def test_text_that_is_no_front_matter_is_the_body(self, text):
        assert (load(text).name, load(text).description) == ("s", "")
        assert body(text) == (text, 1)
        assert remarks(text) == []

    @pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "---\n---\n", "---"])
    def test_blank_files(self, text):
        assert load(text).name == "s"
        assert prompt({".halo/skills/s/SKILL.md": text}, SkillTarget("s")).startswith("# Skill: s\n")


class TestBytes:
    @pytest.mark.parametrize(
        ("data", "name", "line"),
        [
            (TRUNK.replace("S\n", "Caf\xe9\n", 1).encode("cp1252"), "Caf\ufffd", 2),
            (TRUNK.encode("utf-16"), "S", 1),
            (TRUNK.replace("STEPS", "\0STEPS").encode(), "S", 6),
            (TRUNK.replace("does", "d\0oes").encode(), "S", 3),
        ],
    )
    def test_what_is_no_text_is_replaced_and_said(self, data, name, line):
        """A guess at the encoding could be wrong without a word."""
        found = load(data)
        assert found.name == name
        assert remarks(data) == [("skill-front-matter", line)]
        assert "STEPS" in body(data)[0]

    def test_hidden_characters_stay(self):
        assert body(TRUNK.replace("STEPS", "ST\u200bE\u202ePS")) == ("ST\u200bE\u202ePS", 6)

    def test_a_large_body_loads_and_lengths_do_not_matter(self):
        text = in_front(f"name: {'n' * 500}", f"description: {'d' * 3000}") + "x" * 300_000
        assert len(load(text).description) == 3000
        assert len(body(text)[0]) > 300_000


class TestFields:
    def test_defaults(self):
        found = load(TRUNK)
        assert (found.requires_access, found.model_invocable, found.user_invocable, found.allowed_tools) == (
            "readonly",
            True,
            True,
            (),
        )

    @pytest.mark.parametrize(
        "key", ["requires-access", "requiresAccess", "requires_access", "Requires-Access"]
    )
    def test_what_access_it_requires(self, key):
        assert load(in_front(f"{key}: workspace")).requires_access == "workspace"

    @pytest.mark.parametrize("value", ["none", "[full]", "7", "Full"])
    def test_an_access_that_does_not_exist_is_said(self, value):
        text = in_front("name: S", f"requires-access: {value}")
        assert load(text).requires_access == "readonly"
        assert remarks(text) == [("skill-front-matter", 3)]

    @pytest.mark.parametrize(
        ("line", "model", "user"),
        [
            ("disable-model-invocation: true", False, True),
            ("disableModelInvocation: yes", False, True),
            ("disable-model-invocation: false", True, True),
            ('user-invocable: "false"', True, False),
            ("userInvocable: off", True, False),
            ("user-invocable:", True, True),
        ],
    )
    def test_who_may_activate_it(self, line, model, user):
        found = load(in_front(line))
        assert (found.model_invocable, found.user_invocable) == (model, user)

    def test_a_switch_that_is_none_is_said(self):
        text = in_front("name: S", "user-invocable: sometimes")
        assert load(text).user_invocable
        assert remarks(text) == [("skill-front-matter", 3)]

    @pytest.mark.parametrize(
        ("value", "tools"),
        [
            ("Read Write", ("Read", "Write")),
            ("Bash(git add:*) Read", ("Bash(git add:*)", "Read")),
            ("Read, Bash(git:*, gh:*), Grep", ("Read", "Bash(git:*, gh:*)", "Grep")),
            ("[Read, Write]", ("Read", "Write")),
            ("", ()),
        ],
    )
    def test_allowed_tools(self, value, tools):
        text = in_front("name: S", f"allowed-tools: {value}")
        assert load(text).allowed_tools == tools
        assert remarks(text) == []

    def test_allowed_tools_as_a_map_are_left_out_and_said(self):
        text = in_front("name: S", "allowed-tools: {a: b}")
        assert (load(text).allowed_tools, remarks(text)) == ((), [("skill-front-matter", 3)])

    def test_other_spellings_of_name_and_description(self):
        text = in_front("Name: S", "DESCRIPTION: d")
        assert (load(text).name, load(text).description) == ("S", "d")
        assert remarks(text) == [("skill-front-matter", 2), ("skill-front-matter", 3)]


class TestFileNames:
    @pytest.mark.parametrize("file", ["skill.md", "Skill.md", "SKILL.MD"])
    def test_another_case_loads_and_is_said(self, file):
        assert load(TRUNK, file).source == f"workspace:.halo/skills/s/{file}"
        assert remarks(TRUNK, file) == [("skill-file-name", 0)]

    def test_the_exact_name_wins(self):
        files = {".halo/skills/s/skill.md": skill("LOW"), ".halo/skills/s/SKILL.md": skill("EXACT")}
        made = compiled(files, SkillTarget("s"))
        assert "EXACT" in made.prompt
        assert "skill.md" not in made.prompt
        assert [(d.code, d.message) for d in made.manifest.diagnostics if d.code == "skill-file-name"] == [
            ("skill-file-name", "skill.md is not used, because SKILL.md is there")
        ]

    def test_of_several_the_first_by_name(self):
        files = {".halo/skills/s/skill.md": skill("LOW"), ".halo/skills/s/Skill.md": skill("HIGH")}
        made = compiled(files, SkillTarget("s"))
        assert "HIGH" in made.prompt
        assert [d.code for d in made.manifest.diagnostics].count("skill-file-name") == 2

    def test_a_nested_skill_is_a_file_of_the_outer_one(self):
        files = {".halo/skills/s/SKILL.md": skill("x"), ".halo/skills/s/inner/SKILL.md": skill("y")}
        assert default_targets(tree(files)).targets == [SkillTarget("s")]
        assert list_resources(tree(files), "workspace:.halo/skills/s")[0] == ("inner/SKILL.md",)


class TestSkipped:
    """One skill that cannot be read at all does not fail the agents that list it."""

    FILES = {**LISTING, ".halo/skills/t/SKILL.md": skill("T-BODY", description="tides")}  # noqa: RUF012

    @pytest.mark.parametrize(
        "files",
        [
            {".halo/skills/s/SKILL.md": b"x" * (4 * 1024 * 1024 + 1)},
            {".halo/skills/s/notes.md": ""},
            {".halo/skills/s/SKILL.md/x": ""},
        ],
        ids=["too large", "no SKILL.md", "a folder called SKILL.md"],
    )
    def test_it_is_left_out_and_said_with_file_and_line(self, files):
        made = compiled({**self.FILES, **files})
        assert re.findall("<id>(.*)</id>", made.prompt) == ["t"]
        assert [s.id for s in made.manifest.skills] == ["t"]
        (said,) = about_skills(made)
        assert (said.code, said.source, said.line) == (
            "skill-skipped",
            "workspace:.halo/agents/a/agent.yaml",
            1,
        )
        assert "workspace:.halo/skills/s/SKILL.md" in said.message

    @pytest.mark.parametrize("size", [4 * 1024 * 1024, 4 * 1024 * 1024 + 1])
    def test_a_build_goes_on_without_it(self, size):
        survey = default_targets(tree({**self.FILES, ".halo/skills/s/SKILL.md": b"x" * size}))
        left_out = size > 4 * 1024 * 1024
        assert (SkillTarget("s") in survey.targets) is not left_out
        assert [(d.code, d.source) for d in survey.oddities] == (
            [("skill-skipped", "workspace:.halo/skills/s/SKILL.md")] if left_out else []
        )

    def test_asked_for_by_name_it_is_an_error(self):
        with pytest.raises(TreeError, match="larger than"):
            compiled({".halo/skills/s/SKILL.md": b"x" * (4 * 1024 * 1024 + 1)}, SkillTarget("s"))
        with pytest.raises(LayerError, match=r"has no SKILL\.md"):
            compiled({".halo/skills/s/x": ""}, SkillTarget("s"))

    def test_an_unknown_skill_stays_an_error(self):
        with pytest.raises(LayerError, match="unknown skill 's'"):
            compiled(self.FILES)
        with pytest.raises(UnknownNameError):
            read_skill(tree(self.FILES), "s")

    @pytest.mark.parametrize("target", ["/etc/hostname", "nowhere"])
    def test_links_that_leave_the_root_are_refused(self, make_workspace, target):
        ws = make_workspace({**self.FILES, ".halo/skills/s/notes.md": ""})
        ws.path(".halo/skills/s/SKILL.md").symlink_to(target)
        ws.path(".halo/skills/linked").symlink_to("/etc")
        source = DiskTree({"workspace": str(ws.root)})
        survey = default_targets(source)
        assert [t.name for t in survey.targets if isinstance(t, SkillTarget)] == ["skills/t"]
        assert [(d.code, d.source) for d in survey.oddities] == [
            ("skill-skipped", "workspace:.halo/skills/linked"),
            ("skill-skipped", "workspace:.halo/skills/s/SKILL.md"),
        ]

    def test_links_within_the_root_work(self, make_workspace):
        ws = make_workspace({**LISTING, "vendor/s/SKILL.md": skill("LINKED"), ".halo/skills/t/x": ""})
        ws.path(".halo/skills/s").symlink_to("../../vendor/s")
        ws.path(".halo/skills/t/SKILL.md").symlink_to("../../../vendor/s/SKILL.md")
        assert "LINKED" in ws.builder.ensure(SkillTarget("s")).prompt
        assert "LINKED" in ws.builder.ensure(SkillTarget("t")).prompt


LENIENT = {
    "quoted": in_front("name: S", "description: Use when: asked"),
    "unclosed": "---\nname: S\ndescription: does it\n\n# Title\n\nSTEPS\n",
    "unfenced": "name: S\ndescription: does it\n\nSTEPS\n",
    "not UTF-8": "---\nname: S\ndescription: caf\xe9\n---\nSTEPS\n",
}


class TestAgentsRestOnTheFrontMatterAlone:
    @pytest.mark.parametrize("name", LENIENT)
    @pytest.mark.parametrize("file", ["SKILL.md", "skill.md"])
    def test_an_edited_body_leaves_agents_fresh(self, make_workspace, name, file):
        ws = make_workspace({".halo/agents/a/agent.yaml": agent(skills=["s"]), ".halo/skills/s/x": ""})
        path = ws.path(f".halo/skills/s/{file}")
        path.write_bytes(LENIENT[name].encode("cp1252"))
        target = AgentTarget("a")
        ws.builder.ensure(target)
        path.write_bytes(LENIENT[name].encode("cp1252") + b"\nMORE \xe9 STEPS\n")
        assert ws.builder.status(target).reason == ""
        path.write_bytes(LENIENT[name].replace("description: ", "description: never ").encode("cp1252"))
        assert ws.builder.status(target).reason == f"workspace:.halo/skills/s/{file} changed"

    def test_nor_does_a_new_file_of_the_skill_concern_them(self, make_workspace):
        ws = make_workspace(
            {".halo/agents/a/agent.yaml": agent(skills=["s"]), ".halo/skills/s/SKILL.md": TRUNK}
        )
        ws.builder.ensure(AgentTarget("a"))
        ws.write({".halo/skills/s/run.py": ""})
        assert ws.builder.status(AgentTarget("a")).reason == ""

    def test_remarks_stand_in_the_skill_s_own_manifest(self):
        files = {**LISTING, ".halo/skills/s/SKILL.md": LENIENT["quoted"], ".halo/skills/t/skill.md": TRUNK}
        assert about_skills(compiled(files)) == []


FRAGMENTS = st.sampled_from(
    [
        "---", "--- ", "  ---", "name: x", "Name: [y]", "description: a: b", "description: |", "key: [", "# Title",
        "", "  ", "prose", "- item", "  indented", "\ttab", '"q": 1', "<<: {name: [1]}", "&a name: *a", "? x", "x: *a",
        "metadata: {a: {b: [c]}}", "requires-access: full", "allowed-tools: (a b", "\ufeff", "\0", "\x80", "\u2028", "{{now}}",
    ]
)  # fmt: skip
FILES = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda lines, newline: newline.join(lines).encode(),
        st.lists(FRAGMENTS, max_size=12),
        st.sampled_from(["\n", "\r\n", "\r"]),
    ),
)


class TestProperties:
    @given(FILES)
    def test_nothing_crashes_and_the_body_is_the_end_of_the_text(self, data):
        file = read_skill_file(data)
        lines = file.text.split("\n")
        assert file.body == "\n".join(lines[file.line - 1 :]).strip()
        assert file.line <= len(lines) or not file.body
        assert all(1 <= remark.line <= len(lines) for remark in file.remarks)
        assert all(1 <= line <= len(lines) for line in file.lines.values())

    @given(FILES)
    def test_text_that_is_canonical_is_read_as_it_is(self, data):
        try:
            text = canonical_text(data, "x")
        except LayerError:
            return
        assert read_skill_file(data).text == text

    @given(FILES)
    def test_every_verbatim_span_is_the_text_of_its_lines(self, data):
        made = compiled({".halo/skills/s/SKILL.md": data}, SkillTarget("s"))
        lines = read_skill_file(data).text.split("\n")
        encoded = made.prompt.encode()
        spans = [span for segment in made.manifest.segments for span in segment.spans]
        assert b"".join(encoded[s.start : s.end] for s in spans) == encoded
        for span in spans:
            if span.verbatim:
                text = encoded[span.start : span.end].decode()
                assert text in "\n".join(lines[span.line - 1 : span.line + text.count("\n")])

    @given(FILES)
    def test_what_an_agent_rests_on_is_stable(self, data):
        """Reading what was read, as text, gives the same."""
        again = read_skill_file(data).text.encode()
        assert front_matter(again) == front_matter(data)

    @given(st.lists(FRAGMENTS, max_size=8))
    def test_behind_closed_front_matter_the_body_changes_nothing(self, lines):
        head = in_front("name: S", "description: a: b")
        assert front_matter((head + "\n".join(lines)).encode()) == front_matter(head.encode())
