"""`@path` in CLAUDE.md and GEMINI.md: what is a reference, what it brings, and where it may lead."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import body, compiled

from halo.compiler.compile import compile_target
from halo.files.tree import DiskTree
from halo.records.targets import AgentTarget
from halo.workspace.instructions import account
from halo.workspace.instructions.references import find_references

SETTINGS = json.dumps({"general": {"prompt": {"instruction_files": {"claude_md": True, "gemini_md": True}}}})


def expanded(text, **files):
    """What the prompt has of a CLAUDE.md, and the codes and texts of what was said."""
    return of("CLAUDE.md", {"CLAUDE.md": text, **files})


def of(name, files, directory=""):
    layers = {".halo/settings.yaml": SETTINGS, **files}
    result = compiled(body("BODY", **layers), directory=directory)
    segment = next((s for s in result.manifest.segments if s.id == name), None)
    remarks = [(d.code, str(d)) for d in result.manifest.diagnostics if d.code.startswith("i")]
    if segment is None:
        return "", remarks
    text = result.prompt.encode()[segment.start : segment.end].decode()
    return text.partition(f"## Instructions from {name}\n\n")[2].rstrip("\n"), remarks


def paths(text):
    return [reference.path for reference in find_references(text)]


class TestWhatIsAReference:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("@a.md", ["a.md"]),
            ("See @docs/a.md and @~/b.md, then\t@c", ["docs/a.md", "~/b.md,", "c"]),
            ("- @a.md\n1. @b.md\n> @c.md\n# @d.md\n| @e.md |", ["a.md", "b.md", "c.md", "d.md", "e.md"]),
            ("@with\\ blank.md", ["with blank.md"]),
            ("<rules>\n@a.md\n</rules>", ["a.md"]),
            ("Mail mira@example.org", []),
            ("(@a.md) \\@b.md **@c.md**", []),
            ("@ a.md", []),
        ],
    )
    def test_it_begins_a_word(self, text, found):
        assert paths(text) == found

    @pytest.mark.parametrize(
        "text",
        [
            "`@no`",
            "`npm i @no/pkg`",
            "``a ` @no``",
            "`two\nlines @no`",
            "- `@no`\n  `` @no ` ``",
            "```\n@no\n```",
            "~~~python\n@no\ndef f(): ...\n~~~",
            "```\n@no\n\nunclosed @no",
            "````\n```\n@no\n````",
            "    @no",
            "\t@no",
            "text\n\n    @no\n\n    @no",
            "- item\n\n  ```\n  @no\n  ```",
            "- item\n\n      @no",
            "1. a\n   - b\n     ~~~\n     @no\n     ~~~",
            "> ```\n> @no\n> ```",
            "> - ```\n>   @no",
            "<!-- @no -->",
            "<!--\n@no\n\n@no\n-->",
            "a <!-- @no\n@no --> b",
            "<div>\n`@no`\n</div>",
        ],
    )
    def test_not_in_code_and_not_in_comments(self, text):
        assert paths(text) == []
        assert paths(f"@before\n\n{text}")[0] == "before"

    @pytest.mark.parametrize(
        "text",
        [
            "` @yes",
            "`a `` @yes",
            "\\`@no @yes",
            "`code\\` @yes",
            "a ` b\n\n@yes `",
            "lazy\n    @yes",
            "```a`b @yes",
            "- item\n\n    @yes",
            "> ```\n> @no\n\n@yes",
            "- ```\n  @no\n\n@yes",
            "a <!-- never closed @yes",
            "`x` @yes `y`",
        ],
    )
    def test_outside_of_it(self, text):
        assert paths(text) == ["yes"]

    @given(st.text(alphabet="@a`~>-# \n\t<!\\*1.", max_size=60))
    def test_references_lie_in_the_text(self, text):
        """Whatever the Markdown: in order, each at an `@` that begins a word, within its line and its block."""
        last = 0
        for found in find_references(text):
            assert last <= found.start < found.end
            assert text[found.start] == "@"
            assert (
                found.line_start <= found.start <= found.end <= found.line_end <= found.block_end <= len(text)
            )
            assert text[found.line_start : found.line_end] == text.split("\n")[found.line]
            last = found.end


class TestWhatItBrings:
    def test_alone_on_its_line_it_gives_way(self):
        text, remarks = expanded("# Rules\n@docs/a.md\nEnd.", **{"docs/a.md": "\n# A\n\ntext\n\n"})
        assert text == "# Rules\n\n# A\n\ntext\n\nEnd."
        assert remarks == []

    def test_in_a_sentence_it_stays_and_the_text_follows_the_block(self):
        text, remarks = expanded(
            "See @README for all and\n@package.json for scripts.\nBe brief.\n\nEnd.",
            **{"README": "Read me.", "package.json": '{"a": 1}'},
        )
        assert text == (
            "See @README for all and\n@package.json for scripts.\nBe brief.\n\n"
            'Contents of README:\n\nRead me.\n\nContents of package.json:\n\n{"a": 1}\n\nEnd.'
        )
        assert remarks == []

    def test_in_lists_quotes_and_headings(self):
        files = {"a.md": "A", "b.md": "B", "c.md": "C"}
        text, _ = expanded("- @a.md\n- x\n\n> @b.md\n\nT @c.md\n===\nEnd.", **files)
        assert text == (
            "- @a.md\n\nContents of a.md:\n\nA\n\n- x\n\n> @b.md\n\nContents of b.md:\n\nB\n\n"
            "T @c.md\n===\n\nContents of c.md:\n\nC\n\nEnd."
        )

    def test_one_after_the_other(self):
        text, _ = expanded("@a.md\n@b.md\n\n@c.md", **{"a.md": "A", "b.md": "B", "c.md": "C"})
        assert text == "A\n\nB\n\nC"

    def test_each_run_leads_to_its_line(self):
        files = {
            ".halo/settings.yaml": SETTINGS,
            "CLAUDE.md": "---\na: b\n---\n\nOne.\n@docs/a.md\nTwo.",
            "docs/a.md": "\nThree.\n@b.md",
            "docs/b.md": "---\nx: y\n---\nFour.",
        }
        result = compiled(body("BODY", **files))
        data = result.prompt.encode()
        segment = next(s for s in result.manifest.segments if s.id == "CLAUDE.md")
        spans = [
            (data[s.start : s.end].decode(), s.source.removeprefix("workspace:"), s.line)
            for s in segment.spans
            if s.verbatim
        ]
        assert spans == [
            ("One.\n", "CLAUDE.md", 5),
            ("Three.\n", "docs/a.md", 2),
            ("Four.", "docs/b.md", 4),
            ("\nTwo.", "CLAUDE.md", 6),
        ]

    def test_front_matter_is_of_markdown_only(self):
        files = {"a.md": "---\nx: y\n---\nA", "b.yaml": "---\nx: y\n---\nz: 1\n"}
        assert expanded("@a.md\n@b.yaml", **files)[0] == "A\n\n---\nx: y\n---\nz: 1"

    def test_only_markdown_is_searched_for_more(self):
        files = {"a.ts": "class A {\n  @b.md\n}", "b.md": "B"}
        assert expanded("@a.ts", **files) == ("class A {\n  @b.md\n}", [])

    def test_a_blank_file_brings_nothing(self):
        assert expanded("A @a.md", **{"a.md": " \n"}) == ("A @a.md", [])

    def test_gemini_has_them_too_and_agents_md_has_not(self):
        files = {"GEMINI.md": "@./a.md", "a.md": "A"}
        assert of("GEMINI.md", files) == ("A", [])
        chosen = json.dumps({"general": {"prompt": {"instruction_files": {"agents_md": "chain"}}}})
        files = {".halo/settings.yaml": chosen, "AGENTS.md": "@a.md", "a.md": "A"}
        assert "@a.md" in compiled(body("BODY", **files)).prompt

    def test_a_sentence_s_end_is_no_part_of_the_path(self):
        text, remarks = expanded(
            "Read @a.md. Or @b.md, or (see @c.md).", **{n: n for n in ("a.md", "b.md", "c.md")}
        )
        assert [line for line in text.split("\n") if line.startswith("Contents")] == [
            f"Contents of {name}:" for name in ("a.md", "b.md", "c.md")
        ]
        assert remarks == []

    def test_unless_it_is(self):
        assert expanded("@a.", **{"a.": "dot", "a": "none"})[0] == "dot"


class TestWhereItMayLead:
    def test_relative_to_the_file_that_names_it(self):
        files = {
            "pkg/CLAUDE.md": "@x/a.md",
            "pkg/x/a.md": "@../b.md",
            "pkg/b.md": "@./../c.md",
            "c.md": "C",
            "x/a.md": "wrong",
            "b.md": "wrong",
        }
        assert of("pkg/CLAUDE.md", files, "pkg") == ("C", [])

    def test_five_files_deep(self):
        files = {f"{i}.md": f"{i}\n@{i + 1}.md" for i in range(1, 8)}
        text, remarks = expanded("0\n@1.md", **files)
        assert text.split("\n\n") == ["0", "1", "2", "3", "4", "5\n@6.md"]
        assert remarks == [
            (
                "import-refused",
                "workspace:5.md:2: warning: @6.md: it is more than 5 imports deep [import-refused]",
            )
        ]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("See @docs/missing.md.", "@docs/missing.md: there is no such file"),
            ("(as in @docs/missing.md)!", "@docs/missing.md: there is no such file"),
            ("See @docs/.", "@docs/: is a folder"),
            ("See @docs/*", "@docs/: is a folder"),
        ],
    )
    def test_what_ends_the_sentence_is_no_part_of_a_name(self, text, said):
        _, remarks = expanded(text, **{"docs/a.md": "A"})
        assert [line.partition("warning: ")[2] for _, line in remarks] == [f"{said} [import-refused]"]

    def test_a_circle_is_named(self):
        text, remarks = expanded("0\n@a.md", **{"a.md": "a\n@b.md", "b.md": "b\n@a.md\n@CLAUDE.md\n@b.md"})
        assert text == "0\n\na\n\nb\n@a.md\n@CLAUDE.md\n@b.md"
        assert [line for code, line in remarks if code == "import-cycle"] == [
            f"workspace:b.md:{line}: warning: these files import each other: {chain} [import-cycle]"
            for line, chain in [
                (2, "a.md → b.md → a.md"),
                (3, "CLAUDE.md → a.md → b.md → CLAUDE.md"),
                (4, "b.md → b.md"),
            ]
        ]

    def test_a_file_comes_in_once(self):
        text, remarks = expanded(
            "@a.md\n\n@b.md\n\n@copy.md", **{"a.md": "A", "b.md": "B\n@a.md", "copy.md": "A"}
        )
        assert text == "A\n\nB\n@a.md\n\n@copy.md"
        assert [line.partition("info: ")[2] for _, line in remarks] == [
            "a.md is in the prompt already [instruction-duplicate]",
            "copy.md is left out: the same text is in the prompt from a.md [instruction-duplicate]",
        ]

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("../a.md", "leads out of the workspace"),
            ("docs/../../a.md", "leads out of the workspace"),
            ("/etc/passwd", "names a place of one machine; a path is relative to the file that it stands in"),
            (
                "~/.claude/mine.md",
                "names a place of one machine; a path is relative to the file that it stands in",
            ),
            ("~/.halo/secrets/settings.yaml", "names a place of one machine; a path is relative to the file"),
            ("~/.halo/global/../secrets/settings.yaml", "leads out of the global folder"),
            (".halo/settings.yaml", "is no text for prompts"),
            (".HALO/settings.yaml", "is no text for prompts"),
            (".halo/USER.md", "is no text for prompts"),
            (".halo/artifacts/x/prompt.md", "is no text for prompts"),
            (".git/config", "is no text for prompts"),
            ("lib/.GIT/notes.md", "is no text for prompts"),
            ("~/.halo/global/.git/config", "is no text for prompts"),
            ("~/.halo/global/.private/a.md", "is no text for prompts"),
            ("~/.halo/global/skills/mail/token.json", "is no text for prompts"),
            ("~/.halo/global/USER.md", "is no text for prompts"),
            ("pkg/.halo/sessions/2026-01/x/transcript.md", "is no text for prompts"),
            ("none.md", "there is no such file"),
            ("types/node", "there is no such file"),
            ("docs/", "is a folder"),
            ("binary.md", "a NUL byte stands in the text"),
            ("latin.md", "byte 0xe9 is not UTF-8"),
            ("huge.md", "is larger than the 4,194,304 bytes that may be read"),
        ],
    )
    def test_what_stays_a_reference_is_said(self, name, why):
        files = {
            "secrets:settings.yaml": "",
            ".halo/USER.md": "U",
            ".halo/artifacts/x/prompt.md": "P",
            "pkg/.halo/sessions/2026-01/x/transcript.md": "T",
            ".git/config": "url = token",
            "lib/.GIT/notes.md": "N",
            "global:.git/config": "url = token",
            "global:.private/a.md": "A",
            "global:skills/mail/token.json": "{}",
            "global:USER.md": "U",
            "docs/a.md": "A",
            "binary.md": b"a\0b",
            "latin.md": b"caf\xe9",
            "huge.md": b"x" * 4_194_305,
        }
        text, remarks = expanded(f"One.\nSee @{name}", **files)
        assert text == f"One.\nSee @{name}"
        ((code, line),) = remarks
        assert code == "import-refused"
        assert line.startswith(f"workspace:CLAUDE.md:2: warning: @{name}: {why}")

    @pytest.mark.parametrize(
        "text", ["ask @mira", "@mira.", "@docs", "@Override", "@", "@...", "@" + "x" * 5000]
    )
    def test_what_is_no_path_is_text_without_a_word(self, text):
        assert expanded(text, **{"docs/a.md": "A"}) == (text, [])

    def test_markdown_of_the_global_folder_is_open(self):
        """`~/.halo/global/` is that folder wherever HALO_HOME lies: the same reference on every machine."""
        text, remarks = expanded(
            "@~/.halo/global/me.md", **{"global:me.md": "G\n@more.md", "global:more.md": "M"}
        )
        assert (text, remarks) == ("G\n\nM", [])

    def test_our_layers_may_be_named_and_are_there_once(self):
        files = {".halo/prompts/all/x.md": "X", ".halo/INSTRUCTIONS.md": "OWN"}
        text, remarks = expanded("@.halo/prompts/all/x.md\n\n@.halo/INSTRUCTIONS.md", **files)
        assert text == "X\n\n@.halo/INSTRUCTIONS.md"
        assert [code for code, _ in remarks] == ["instruction-duplicate"]

    def test_links_are_followed_within_the_roots_only(self, make_workspace, tmp_path):
        (tmp_path / "secret.md").write_text("SECRET")
        ws = make_workspace(
            body(
                "BODY",
                **{".halo/settings.yaml": SETTINGS, "CLAUDE.md": "@in.md\n@out.md\n@way/secret.md\n@loop"},
            )
        )
        (ws.root / "docs").mkdir()
        (ws.root / "docs" / "a.md").write_text("INSIDE")
        os.symlink("docs/a.md", ws.root / "in.md")
        os.symlink(tmp_path / "secret.md", ws.root / "out.md")
        os.symlink(tmp_path, ws.root / "way")
        os.symlink("loop", ws.root / "loop")
        result = compile_target(DiskTree(ws.places.roots), AgentTarget("a"))
        assert "INSIDE\n\n@out.md\n@way/secret.md\n@loop\n" in result.prompt
        assert "SECRET" not in result.prompt
        assert [d.line for d in result.manifest.diagnostics if d.code == "import-refused"] == [2, 3]

    def test_a_file_that_comes_into_being_is_noticed(self, make_workspace):
        ws = make_workspace(body("BODY", **{".halo/settings.yaml": SETTINGS, "CLAUDE.md": "@docs/a.md"}))
        target = AgentTarget("a")
        assert "@docs/a.md" in ws.builder.ensure(target).prompt
        ws.write({"docs/a.md": "There."})
        assert "There." in ws.builder.ensure(target).prompt
        ws.write({"docs/a.md": "Changed."})
        assert "Changed." in ws.builder.ensure(target).prompt


class TestBounds:
    def test_many_references(self):
        text, remarks = expanded("@x.md " * 5_000)
        assert text.count("@x.md") == 5_000
        assert len(remarks) == account.MOST_REFERENCES + 1
        assert remarks[-1][0] == "instruction-limit"

    def test_many_files(self):
        count = account.MOST_FILES + 10
        files = {f"{i}.md": f"text {i}" for i in range(count)}
        text, remarks = expanded("".join(f"@{i}.md\n\n" for i in range(count)), **files)
        assert text.count("text ") == account.MOST_FILES - 1  # CLAUDE.md is one
        assert text.endswith(f"@{count - 1}.md")
        assert [code for code, _ in remarks] == ["instruction-limit"] * 11

    def test_a_tree_of_imports_does_not_explode(self):
        """Five deep and ten wide would be 100,000 texts; each file comes in once."""
        files = {
            f"{level}-{i}.md": "".join(f"@{level + 1}-{j}.md\n\n" for j in range(10)) + f"text {level}-{i}"
            for level in range(1, 6)
            for i in range(10)
        }
        text, _ = expanded("".join(f"@1-{i}.md\n\n" for i in range(10)), **files)
        assert text.count("text ") == 50

    @pytest.mark.parametrize(
        "unit",
        [
            "@a b\n",
            "- @a\n",
            "> @a\n",
            "<!-- ",
            "<!-- --> ",
            "` `` @a ",
            "\\`",
            "[a]: @b\n",
            "`@a` ",
            "* " * 99 + "@a\n",
        ],
    )
    @pytest.mark.timeout(120)
    def test_hostile_text_of_the_most_that_is_searched(self, unit):
        text = unit * (account.MOST_SEARCHED // len(unit) - 1) + "@end"
        assert expanded(text)[0] == text

    def test_more_text_than_is_searched(self):
        text, remarks = expanded("x" * account.MOST_SEARCHED + "\n@a.md", **{"a.md": "A"})
        assert text.endswith("\n@a.md")
        assert [code for code, _ in remarks] == ["instruction-limit"]


@pytest.mark.parametrize(("text", "needed"), [("Rules of mira@example.org.", False), ("@none.md", True)])
def test_the_parser_is_imported_only_for_a_text_that_needs_it(make_workspace, text, needed):
    """It costs more than the rest of a compile."""
    ws = make_workspace(body("BODY", **{".halo/settings.yaml": SETTINGS, "CLAUDE.md": text}))
    done = ws.run("-X", "importtime", "-m", "halo", "prompt", "-a", "a")
    assert "## Instructions from CLAUDE.md" in done.stdout
    assert ("markdown_it" in done.stderr) is needed
    assert "asyncio" not in done.stderr
