"""AGENTS.md, CLAUDE.md and their like in a prompt: which files, in which order, why the others are not there."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, body, compiled, prompt, tree

from halo.compiler.compile import compile_target
from halo.files.canonical import canonical_text
from halo.files.tree import DiskTree, RecordingTree
from halo.records.targets import AgentTarget
from halo.workspace.instructions import account
from halo.workspace.instructions.mark import with_mark

ALL = {"agents_md": "chain", "claude_md": True, "gemini_md": True, "cursor_rules": True, "copilot": True}


def settings(**chosen):
    return json.dumps({"general": {"prompt": {"instruction_files": chosen}}})


def workspace(files, **chosen):
    """An agent `a` with these files; without `chosen`, all kinds are switched on."""
    return body("BODY", **{".halo/settings.yaml": settings(**(chosen or ALL)), **files})


def sections(files, directory="", **chosen):
    """The sections that come from instruction files: name and text, in order."""
    result = compiled(workspace(files, **chosen), directory=directory)
    data = result.prompt.encode()
    found = []
    for segment in result.manifest.segments:
        text = data[segment.start : segment.end].decode().strip()
        title = f"## Instructions from {segment.id}\n\n"
        if title in text:
            found.append((segment.id, text.partition(title)[2]))
    return found


def names(files, directory="", **chosen):
    return [name for name, _ in sections(files, directory, **chosen)]


def said(files, directory="", **chosen):
    """What is said about instruction files, as (code, line as printed)."""
    result = compiled(workspace(files, **chosen), directory=directory)
    return [(d.code, str(d)) for d in result.manifest.diagnostics if d.code.startswith(("i", "path-"))]


FILES = {
    "AGENTS.md": "A",
    "CLAUDE.md": "C",
    ".claude/CLAUDE.md": "CC",
    ".claude/rules/b.md": "CB",
    ".claude/rules/a/z.md": "CAZ",
    "GEMINI.md": "G",
    ".cursorrules": "CU",
    ".cursor/rules/one.mdc": "---\nalwaysApply: true\n---\nCU1",
    ".github/copilot-instructions.md": "CO",
    ".github/instructions/x/y.instructions.md": "---\napplyTo: '**'\n---\nCOXY",
    "pkg/AGENTS.md": "PA",
    "pkg/CLAUDE.md": "PC",
    "pkg/.claude/CLAUDE.md": "PCC",
    "pkg/GEMINI.md": "PG",
    "pkg/deep/AGENTS.md": "DA",
    "pkg/deep/GEMINI.md": "DG",
    "other/AGENTS.md": "OA",
}

ROOT = [
    *("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/a/z.md", ".claude/rules/b.md"),
    *("GEMINI.md", ".cursorrules", ".cursor/rules/one.mdc"),
    *(".github/copilot-instructions.md", ".github/instructions/x/y.instructions.md"),
]
PKG = ["pkg/AGENTS.md", "pkg/CLAUDE.md", "pkg/.claude/CLAUDE.md", "pkg/GEMINI.md"]
DEEP = ["pkg/deep/AGENTS.md", "pkg/deep/GEMINI.md"]


class TestWhichFiles:
    def test_none_by_default_and_none_is_looked_at(self):
        """An input costs a check with each prompt, so what is switched off leaves none."""
        files = {**body("BODY"), **FILES}
        recording = RecordingTree(tree(files), lambda: 0)
        text = compile_target(recording, AgentTarget("a", directory="pkg/deep")).prompt
        assert "Instructions from" not in text
        consulted = {known.path.removeprefix("workspace:") for known in recording.inputs()}
        assert not consulted & set(FILES)
        assert not any(path.startswith((".claude", ".cursor", ".github")) for path in consulted)

    @pytest.mark.parametrize(
        ("chosen", "expected"),
        [
            ({"agents_md": "chain"}, ["AGENTS.md", "pkg/AGENTS.md", "pkg/deep/AGENTS.md"]),
            ({"agents_md": "nearest"}, ["pkg/deep/AGENTS.md"]),
            ({"agents_md": "off"}, []),
            ({"claude_md": True}, [*ROOT[1:5], *PKG[1:3]]),
            ({"gemini_md": True}, ["GEMINI.md", "pkg/GEMINI.md", "pkg/deep/GEMINI.md"]),
            ({"cursor_rules": True}, ROOT[6:8]),
            ({"copilot": True}, ROOT[8:]),
        ],
        ids=str,
    )
    def test_each_kind_is_switched_on_by_itself(self, chosen, expected):
        assert names(FILES, "pkg/deep", **chosen) == expected

    def test_broad_first_specific_last(self):
        assert names(FILES) == ROOT
        assert names(FILES, "pkg") == ROOT + PKG
        assert names(FILES, "pkg/deep") == ROOT + PKG + DEEP

    def test_the_nearest_is_the_root_s_where_no_other_is(self):
        assert names(FILES, "docs/a", agents_md="nearest") == ["AGENTS.md"]
        assert names({**FILES, "pkg/deep/AGENTS.md": " \n"}, "pkg/deep", agents_md="nearest") == [
            "pkg/AGENTS.md"
        ]

    def test_private_files_are_not_read(self):
        """A prompt is the same for everybody who has the workspace."""
        assert names({"CLAUDE.local.md": "x", "AGENTS.override.md": "x"}) == []

    def test_roots_and_subs_have_them_and_internal_agents_do_not(self):
        files = workspace({"AGENTS.md": "A"})
        for role in ("root", "sub"):
            assert "## Instructions from AGENTS.md\n\nA\n" in prompt(files, role=role)
            internal = {**files, ".halo/agents/a/agent.yaml": agent(internal=True)}
            assert "AGENTS.md" not in prompt(internal, role=role)


class TestInThePrompt:
    def test_between_the_instructions_and_the_rules_of_directories(self):
        text = prompt(
            workspace(
                {
                    ".halo/INSTRUCTIONS.md": "OWN",
                    ".halo/INDEX.md": "INDEX",
                    "pkg/.halo/INSTRUCTIONS.md": "PKG",
                    "AGENTS.md": "A",
                    "pkg/AGENTS.md": "PA",
                }
            ),
            directory="pkg",
        )
        assert text.split("\n\n---\n\n")[1:5] == [
            "## User Instructions\n\nOWN",
            "## Instructions from AGENTS.md\n\nA",
            "## Instructions from pkg/AGENTS.md\n\nPA",
            "## User Instructions\n\n### pkg\n\nPKG",
        ]

    def test_a_segment_each_of_kind_instructions(self):
        manifest = compiled(workspace(FILES), directory="pkg").manifest
        found = [s for s in manifest.segments if s.id in ROOT + PKG]
        assert [(s.kind, s.scope, s.source) for s in found] == [
            ("instructions", "workspace", f"workspace:{name}") for name in ROOT + PKG
        ]

    @pytest.mark.parametrize(
        "front",
        [
            "---\ndescription: d\n---\n",
            "---  \nglobs: *.ts\n--- \n\n",
            "---\n---\n",
            "\ufeff---\r\na: b\r\n---\r\n",
        ],
    )
    def test_front_matter_is_left_out(self, front):
        assert sections({"AGENTS.md": front + "Text.\n\n---\nMore."}) == [
            ("AGENTS.md", "Text.\n\n---\nMore.")
        ]

    @pytest.mark.parametrize(
        "text", ["---\nSome prose.\n\n---\nMore.", "---\nunclosed: yes", "***\na: b\n***"]
    )
    def test_rules_around_prose_are_text(self, text):
        assert sections({"AGENTS.md": text}) == [("AGENTS.md", text)]

    def test_braces_are_text(self):
        assert sections({"AGENTS.md": "Today is {{now}}."}) == [("AGENTS.md", "Today is {{now}}.")]

    def test_an_odd_file_name_cannot_break_the_heading(self):
        files = {".claude/rules/a\tb\x1b[2J.md": "x"}
        assert names(files) == [".claude/rules/a b [2J.md"]


class TestRulesThatStayOut:
    def test_cursor_rules_for_all_files_only(self):
        files = {
            ".cursor/rules/globs.mdc": "---\nglobs: **/*.{ts,tsx}\nalwaysApply: false\n---\nx",
            ".cursor/rules/asked.mdc": "---\ndescription: when asked\n---\nx",
            ".cursor/rules/manual.mdc": "No front matter.",
            ".cursor/rules/text.mdc": '---\nalwaysApply: "true"\n---\nx',
            ".cursor/rules/other.md": "not a rule",
        }
        assert names(files) == []
        assert said(files) == [
            (
                "path-scoped-rules",
                (
                    "workspace:.cursor/rules: info: 4 of 4 rules stay out: asked.mdc (on demand);"
                    " globs.mdc (globs: **/*.{ts,tsx}); manual.mdc (on demand);"
                    " text.mdc (alwaysApply is a text, not true) [path-scoped-rules]"
                ),
            )
        ]

    def test_claude_rules_with_paths(self):
        files = {
            ".claude/rules/a.md": "---\npaths: src/**/*.ts\n---\nx",
            ".claude/rules/b.md": "---\npaths:\n  - src/**\n  - lib/**\n---\nx",
            ".claude/rules/c.md": "---\npaths:\n---\nKept.",
        }
        assert sections(files) == [(".claude/rules/c.md", "Kept.")]
        ((_, line),) = said(files)
        assert "2 of 3 rules stay out: a.md (paths: src/**/*.ts); b.md (paths: src/**, lib/**)" in line

    @pytest.mark.parametrize(
        ("front", "always"),
        [
            ("applyTo: '**'", True),
            ('applyTo: "**/*"', True),
            ("applyTo: **", True),
            ("applyTo: '*'", True),
            ("applyTo: ['*']", True),
            ("applyTo:\n  - '**/*.ts'\n  - '**'", True),
            ("applyTo: '**/*.md, **'", True),
            ("applyTo: >-\n  **", True),
            ("applyTo: **/*.{ts,tsx}", False),
            ("applyTo: '**/*.{*,ts}'", False),
            ("applyTo: 'src/**'", False),
            ("applyTo: '**.cs, **.csproj'", False),
            ("applyTo:", False),
            ("applyTo: []", False),
            ("description: '**'", False),
        ],
    )
    def test_copilot_rules_for_all_files_only(self, front, always):
        files = {".github/instructions/x.instructions.md": f"---\n{front}\n---\nx"}
        assert bool(names(files)) is always
        assert [code for code, _ in said(files)] == ([] if always else ["path-scoped-rules"])

    def test_the_remark_is_one_line_and_says_how_many_more(self):
        files = {f".cursor/rules/{i:03}.mdc": f"---\nglobs: {'x' * 500}\n---\n" for i in range(50)}
        ((_, line),) = said(files)
        assert "50 of 50 rules stay out: 000.mdc (globs: xxx" in line
        assert line.endswith("…); and 30 more [path-scoped-rules]")
        assert len(line) < 3000

    def test_the_text_of_a_rule_that_stays_out_is_no_input(self, make_workspace):
        """Who edits a rule for certain paths does not make every prompt stale; who widens it does."""
        ws = make_workspace(
            workspace({".cursor/rules/ts.mdc": "---\nglobs: *.ts\n---\nOne."}, cursor_rules=True)
        )
        target = AgentTarget("a")
        rule = ws.root / ".cursor/rules/ts.mdc"
        first = ws.builder.ensure(target)
        rule.write_text("---\nglobs: *.ts\n---\nTwo, longer.")
        assert ws.builder.status(target).artifact is not None
        rule.write_text("---\nglobs: *.ts\nalwaysApply: true\n---\nTwo, longer.")
        assert ws.builder.status(target).artifact is None
        assert ws.builder.ensure(target).id != first.id


class TestSaidOnce:
    """The first in order stays; the others are named."""

    def test_equal_files(self):
        files = {
            "AGENTS.md": "Same.\n",
            "CLAUDE.md": "\ufeffSame.\r\n\r\n",
            "pkg/GEMINI.md": "---\na: b\n---\nSame.",
        }
        assert names(files, "pkg") == ["AGENTS.md"]
        assert [line for _, line in said(files, "pkg")] == [
            f"workspace:{name}: info: {name} is left out: the same text is in the prompt from AGENTS.md"
            " [instruction-duplicate]"
            for name in ("CLAUDE.md", "pkg/GEMINI.md")
        ]

    @pytest.mark.parametrize(
        "own",
        [".halo/INSTRUCTIONS.md", ".halo/INDEX.md", "pkg/.halo/INSTRUCTIONS.md", "global:INSTRUCTIONS.md"],
    )
    def test_a_file_that_is_a_layer_of_ours_too(self, own):
        files = {own: "Same.", "AGENTS.md": "Same.\n"}
        assert names(files, "pkg") == []
        assert prompt(workspace(files), directory="pkg").count("Same.") == 1
        assert f"from {own}" in said(files, "pkg")[0][1]

    def test_a_link_to_another(self, make_workspace):
        """AGENTS.md as a link to CLAUDE.md is one text, with the imports that CLAUDE.md has."""
        ws = make_workspace(workspace({"CLAUDE.md": "See:\n\n@docs/a.md", "docs/a.md": "Imported."}))
        os.symlink("CLAUDE.md", ws.root / "AGENTS.md")
        result = compile_target(DiskTree(ws.places.roots), AgentTarget("a"))
        assert result.prompt.count("See:") == 1
        assert "## Instructions from AGENTS.md\n\nSee:\n\nImported.\n" in result.prompt

    def test_a_link_between_directories(self, make_workspace):
        ws = make_workspace(workspace({"AGENTS.md": "Rules.", "pkg/x.md": ""}))
        os.symlink("../AGENTS.md", ws.root / "pkg" / "AGENTS.md")
        result = compile_target(DiskTree(ws.places.roots), AgentTarget("a", directory="pkg"))
        assert result.prompt.count("Rules.") == 1

    def test_equal_texts_with_different_imports_are_both_there(self):
        """The same reference leads to another file in another directory."""
        files = {"CLAUDE.md": "@a.md", "a.md": "Root.", "pkg/CLAUDE.md": "@a.md", "pkg/a.md": "Package."}
        assert sections(files, "pkg") == [("CLAUDE.md", "Root."), ("pkg/CLAUDE.md", "Package.")]

    def test_a_file_that_only_points_to_another_is_left_out(self):
        """`@AGENTS.md` as the whole of CLAUDE.md is what its maker suggests."""
        files = {"AGENTS.md": "A", "CLAUDE.md": "# @AGENTS.md\n"}
        assert sections(files) == [("AGENTS.md", "A")]
        assert [code for code, _ in said(files)] == ["instruction-duplicate"] * 2
        assert sections(files, claude_md=True) == [
            ("CLAUDE.md", "# @AGENTS.md\n\nContents of AGENTS.md:\n\nA")
        ]

    def test_what_was_imported_is_not_there_again(self):
        files = {"CLAUDE.md": "@GEMINI.md", "GEMINI.md": "G", "pkg/CLAUDE.md": "P\n@../GEMINI.md"}
        assert sections(files, "pkg") == [("CLAUDE.md", "G"), ("pkg/CLAUDE.md", "P\n@../GEMINI.md")]


class TestExports:
    """What `halo export` wrote says what our layers say."""

    def test_it_is_left_out(self):
        files = {
            "AGENTS.md": with_mark("Rules.\n"),
            "pkg/AGENTS.md": with_mark("P.\n"),
            "CLAUDE.md": "C\n@AGENTS.md",
        }
        assert sections(files, "pkg") == [("CLAUDE.md", "C\n@AGENTS.md")]
        assert {code for code, _ in said(files, "pkg")} == {"instruction-export"}

    def test_so_is_one_that_was_changed_with_a_warning(self):
        files = {"AGENTS.md": with_mark("Rules.\n") + "Mine.\n"}
        assert names(files) == []
        ((code, line),) = said(files)
        assert code == "instruction-export"
        assert "warning: AGENTS.md is left out: Halo exported it, and it was changed since" in line

    def test_the_nearest_is_the_nearest_of_somebody_else(self):
        files = {"AGENTS.md": "Root.", "pkg/AGENTS.md": with_mark("P.\n")}
        assert names(files, "pkg", agents_md="nearest") == ["AGENTS.md"]

    @pytest.mark.parametrize(
        "text",
        [
            "<!-- Made by `halo export agents-md` from .halo/; change it there. -->\nx",
            "x\n" + with_mark("y\n"),
            with_mark("y\n").replace("sha256:", "sha256:0"),
        ],
    )
    def test_what_only_looks_like_one_is_read(self, text):
        assert names({"AGENTS.md": text}) == ["AGENTS.md"]


class TestHostile:
    """Nothing of another tool stops a prompt; what could not be read is said."""

    @pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md", ".cursorrules", ".claude/rules/a.md"])
    @pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", b"x" * 5_000_000])
    def test_what_is_no_text_or_too_large(self, name, data):
        files = {name: data, "GEMINI.md": "G"}
        assert names(files) == ["GEMINI.md"]
        assert [code for code, _ in said(files)] == ["instruction-unreadable"]

    def test_a_folder_in_the_place_of_a_file_and_a_file_in_the_place_of_a_folder(self):
        files = {"AGENTS.md/x": "x", ".cursor/rules": "x", ".claude/rules/x.md/y": "x"}
        assert names(files) == []
        assert [code for code, _ in said(files)] == ["instruction-unreadable"] * 2

    def test_links_that_leave(self, make_workspace, tmp_path):
        secret = tmp_path / "secret.md"
        secret.write_text("SECRET")
        (tmp_path / "rules").mkdir()
        (tmp_path / "rules" / "r.mdc").write_text("---\nalwaysApply: true\n---\nSECRET")
        ws = make_workspace(workspace({".cursor/rules/x.mdc": "---\nalwaysApply: true\n---\nX"}))
        os.symlink(secret, ws.root / "AGENTS.md")
        os.symlink(secret, ws.root / ".cursor/rules/leaves.mdc")
        os.symlink(tmp_path / "rules", ws.root / ".cursor/rules/folder")
        os.symlink("nowhere", ws.root / "GEMINI.md")
        os.symlink(tmp_path / "rules", ws.root / ".claude")
        os.symlink(".cursor", ws.root / ".github")
        os.symlink("..", ws.root / ".cursor/rules/up")
        result = compile_target(DiskTree(ws.places.roots), AgentTarget("a"))
        assert "SECRET" not in result.prompt + json.dumps([str(d) for d in result.manifest.diagnostics])
        assert "## Instructions from .cursor/rules/x.mdc\n\nX\n" in result.prompt
        sources = {d.source for d in result.manifest.diagnostics if d.code == "instruction-unreadable"}
        assert {f"workspace:{name}" for name in ("AGENTS.md", "GEMINI.md")} < sources
        assert {f"workspace:.cursor/rules/{name}" for name in ("leaves.mdc", "up")} < sources

    def test_a_file_becomes_readable(self, make_workspace):
        """What was left out is an input: once it is text, the prompt is stale."""
        ws = make_workspace(workspace({"x": ""}, copilot=True, agents_md="chain"))
        rule = ws.root / ".github/instructions/a.instructions.md"
        rule.parent.mkdir(parents=True)
        for path in (rule, ws.root / "AGENTS.md"):
            path.write_bytes(b"\xff")
            ws.builder.ensure(AgentTarget("a"))
            assert ws.builder.status(AgentTarget("a")).artifact is not None
            path.write_bytes(b"---\napplyTo: '**'\n---\nNow.")
            assert ws.builder.status(AgentTarget("a")).artifact is None
            assert "Now." in ws.builder.ensure(AgentTarget("a")).prompt

    def test_many_rules(self):
        files = {f".claude/rules/{i:04}.md": f"Rule {i}." for i in range(1200)}
        found = names(files)
        assert len(found) == account.MOST_FILES
        codes = [code for code, _ in said(files)]
        assert codes == ["instruction-limit"] * len(codes)
        assert any("more than 1,000 files" in line for _, line in said(files))
        assert any(
            ".claude/rules/0999.md: warning: left out: there is no room" in line for _, line in said(files)
        )

    def test_much_text(self):
        files = {name: name + "x" * 600_000 for name in ("AGENTS.md", "CLAUDE.md")} | {"GEMINI.md": "G"}
        assert names(files) == ["AGENTS.md", "GEMINI.md"]
        assert said(files) == [
            (
                "instruction-limit",
                "workspace:CLAUDE.md: warning: left out: there is no room for it [instruction-limit]",
            )
        ]


class TestFreshness:
    @pytest.mark.parametrize("name", [*ROOT, *PKG, "pkg/deep/CLAUDE.md", ".cursor/rules/new.mdc"])
    def test_a_new_file_is_noticed(self, make_workspace, name):
        ws = make_workspace(workspace({"pkg/deep/x": ""}))
        target = AgentTarget("a", directory="pkg/deep")
        ws.builder.ensure(target)
        ws.write({name: FILES.get(name, "---\nalwaysApply: true\n---\nNew.")})
        assert ws.builder.status(target).artifact is None
        assert f"## Instructions from {name}\n" in ws.builder.ensure(target).prompt
        ws.path(name).unlink()
        assert f"Instructions from {name}" not in ws.builder.ensure(target).prompt


WORDS = st.sampled_from(
    [
        *("@a.md", "@b.md", "@AGENTS.md", "@pkg/../a.md", "@data.json", "@none.md", "text", "`@a.md`", "```"),
        *(
            "> @a.md",
            "- @b.md",
            "    @a.md",
            "# @b.md",
            "===",
            "<!--",
            "-->",
            "<b>",
            "`",
            "é 日本",
            "",
            "  ",
            "\\",
        ),
    ]
)
TEXTS = st.lists(st.lists(WORDS, max_size=3).map(" ".join), max_size=6).map("\n".join)


@given(claude=TEXTS, agents=TEXTS, a=TEXTS, b=TEXTS)
def test_every_byte_leads_to_its_line(claude, agents, a, b):
    """Whatever is imported where: spans tile the prompt, and a verbatim one is the text of its file."""
    files = {"CLAUDE.md": claude, "AGENTS.md": agents, "a.md": a, "b.md": b, "data.json": '{"a": "@b.md"}'}
    source = tree(workspace(files))
    result = compile_target(source, AgentTarget("a"))
    data = result.prompt.encode()
    position = 0
    for segment in result.manifest.segments:
        for span in segment.spans:
            assert span.start == position
            assert span.end > position
            position = span.end
            if span.verbatim:
                lines = canonical_text(source.read(span.source), span.source).split("\n")
                rest = "\n".join(lines[span.line - 1 :])
                text = data[span.start : span.end].decode()
                at = rest.find(text)
                assert at >= 0
                assert "\n" not in rest[:at]
    assert position == len(data)
    spans = [span for segment in result.manifest.segments for span in segment.spans if span.verbatim]
    for name in {span.source for span in spans} - {"workspace:.halo/agents/a/AGENT.md"}:
        whole = canonical_text(source.read(name), name)
        found = "".join(data[s.start : s.end].decode() for s in spans if s.source == name)
        assert without_references(found) == without_references(whole)


def without_references(text):
    """What stays of a text whatever is imported: all but white space and references."""
    return re.sub(r"@\S+|\s", "", text)
