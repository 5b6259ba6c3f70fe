"""`halo export agents-md`: our layers for other tools, and nothing of theirs overwritten."""

import os
import re

import pytest
from making import agent, skill

from halo.cli.main import run
from halo.workspace.instructions.mark import state_of

MARK = r"<!-- Made by `halo export agents-md` from \.halo/; change it there\. sha256:[0-9a-f]{64} -->\n\n"

LAYERS = {
    ".halo/agents/default/agent.yaml": agent(),
    ".halo/agents/default/AGENT.md": "AGENT",
    ".halo/USER.md": "USER",
    ".halo/INSTRUCTIONS.md": "---\nx: y\n---\n# Rules\n\nBe brief.\n",
    ".halo/INDEX.md": "docs/: all\n",
    ".halo/prompts/all/x.md": "PROMPT",
    ".halo/skills/sums/SKILL.md": skill("BODY", name="Sums", description="Adds."),
    ".halo/skills/old/SKILL.md": skill("BODY", name="Old", description="Gone."),
    ".halo/settings.yaml": "general: {disabled: {skills: [old]}}\n",
    "pkg/.halo/INSTRUCTIONS.md": "Pkg rules.",
    "pkg/deep/.halo/INSTRUCTIONS.md": "Deep rules.",
    "docs/.halo/INSTRUCTIONS.md": " \n",
    "global:INSTRUCTIONS.md": "GLOBAL",
    "global:skills/mine/SKILL.md": skill("BODY", name="Mine", description="Private."),
}

ROOT = (
    "# Rules\n\nBe brief.\n\n## Project Knowledge\n\ndocs/: all\n\n"
    "## Skills\n\nProcedures for tasks that come up again. Read the file before you do what it is for:\n\n"
    "- `.halo/skills/sums/SKILL.md`: Adds.\n"
)


@pytest.fixture
def ws(make_workspace, monkeypatch):
    made = make_workspace(LAYERS)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    return made


def export(capfd, *arguments):
    """Exit code, stdout and stderr of an export."""
    code = run(["export", "agents-md", *arguments])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err


def bodies(ws):
    """The exported files without their mark."""
    found = {}
    for path in sorted(ws.root.rglob("AGENTS.md")):
        mark, text = re.fullmatch(rf"({MARK})(.*)", path.read_text(), re.DOTALL).groups()
        assert state_of(mark + text) == "ours"
        found[path.relative_to(ws.root).as_posix()] = text
    return found


def test_one_for_the_workspace_and_one_for_each_directory_with_rules(ws, capfd):
    code, out, err = export(capfd)
    assert (code, err) == (0, "")
    assert out == ["made    AGENTS.md", "made    pkg/AGENTS.md", "made    pkg/deep/AGENTS.md"]
    assert bodies(ws) == {
        "AGENTS.md": ROOT,
        "pkg/AGENTS.md": "Pkg rules.\n",
        "pkg/deep/AGENTS.md": "Deep rules.\n",
    }


def test_nobody_s_private_layers(ws, capfd):
    """Neither USER.md nor the global folder; nor what is for Halo's own agents and tools."""
    export(capfd)
    text = (ws.root / "AGENTS.md").read_text()
    assert not [word for word in ("USER", "AGENT\n", "PROMPT", "GLOBAL", "Private", "Gone") if word in text]


def test_the_global_instructions_when_asked(ws, capfd):
    ws.path(".halo/INSTRUCTIONS.md").unlink()
    export(capfd)
    assert "GLOBAL" not in bodies(ws)["AGENTS.md"]
    assert export(capfd, "--global")[1][0] == "renewed AGENTS.md"
    assert bodies(ws)["AGENTS.md"].startswith("GLOBAL\n\n## Project Knowledge\n\n")
    assert "Private" not in bodies(ws)["AGENTS.md"]


def test_a_second_time_nothing_is_written(ws, capfd):
    export(capfd)
    before = {p: p.stat().st_ino for p in ws.root.rglob("AGENTS.md")}
    assert [line.split()[0] for line in export(capfd)[1]] == ["kept"] * 3
    assert {p: p.stat().st_ino for p in ws.root.rglob("AGENTS.md")} == before


def test_what_changed_is_renewed_and_what_is_gone_goes(ws, capfd):
    export(capfd)
    ws.write({".halo/INSTRUCTIONS.md": "New."})
    ws.path("pkg/.halo/INSTRUCTIONS.md").unlink()
    assert export(capfd)[1] == ["renewed AGENTS.md", "gone    pkg/AGENTS.md", "kept    pkg/deep/AGENTS.md"]
    assert list(bodies(ws)) == ["AGENTS.md", "pkg/deep/AGENTS.md"]


def test_another_spelling_of_line_ends_is_the_same_file(ws, capfd):
    """Git may check it out with CRLF."""
    export(capfd)
    path = ws.root / "AGENTS.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert export(capfd, "--check")[0] == 0


class TestCheck:
    def test_it_writes_nothing(self, ws, capfd):
        code, out, _ = export(capfd, "--check")
        assert code == 1
        assert out[0] == "missing      AGENTS.md"
        assert bodies(ws) == {}

    def test_it_says_what_is_the_matter_and_not_what_it_did(self, ws, capfd):
        export(capfd)
        ws.write({".halo/INDEX.md": "new\n"})
        (ws.root / "pkg/.halo/INSTRUCTIONS.md").unlink()
        before = bodies(ws)
        assert export(capfd, "--check")[1] == [
            "out of date  AGENTS.md",
            "obsolete     pkg/AGENTS.md",
            "kept         pkg/deep/AGENTS.md",
        ]
        assert bodies(ws) == before

    def test_it_is_content_with_a_fresh_export(self, ws, capfd):
        export(capfd)
        assert export(capfd, "--check")[0] == 0

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            (".halo/INDEX.md", "other"),
            ("pkg/.halo/INSTRUCTIONS.md", ""),
            ("new/.halo/INSTRUCTIONS.md", "New."),
            (".halo/skills/sums/SKILL.md", skill("BODY", description="Subtracts.")),
            ("AGENTS.md", "by hand"),
        ],
    )
    def test_it_sees_what_is_out_of_date(self, ws, capfd, path, text):
        export(capfd)
        ws.write({path: text})
        assert export(capfd, "--check")[0] == 1

    def test_the_text_of_a_skill_is_not_in_it(self, ws, capfd):
        export(capfd)
        ws.write({".halo/skills/sums/SKILL.md": skill("OTHER", name="Sums", description="Adds.")})
        assert export(capfd, "--check")[0] == 0


class TestWhatOthersWrote:
    """It stays, and then nothing at all is written."""

    def refused(self, ws, capfd, *said):
        code, out, err = export(capfd)
        assert (code, out) == (2, [])
        for text in ("halo: nothing was written", *said, "move it away, or take its text into .halo/"):
            assert text in err
        assert export(capfd, "--check")[0] == 1

    def test_a_file_of_somebody_else(self, ws, capfd):
        ws.write({"pkg/AGENTS.md": "Mine.\n", "AGENTS.md": ""})
        self.refused(
            ws, capfd, "pkg/AGENTS.md is there, and Halo did not write it", "; ", ": AGENTS.md is there"
        )
        assert (ws.root / "pkg/AGENTS.md").read_text() == "Mine.\n"
        assert not (ws.root / "pkg/deep/AGENTS.md").exists()

    def test_an_export_that_was_changed(self, ws, capfd):
        export(capfd)
        path = ws.root / "AGENTS.md"
        path.write_text(path.read_text() + "Mine.\n")
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "New."})
        self.refused(ws, capfd, "AGENTS.md was changed since Halo exported it")
        assert path.read_text().endswith("Mine.\n")
        assert "New." not in (ws.root / "pkg/AGENTS.md").read_text()

    def test_also_where_no_rules_lead_to_it_any_more(self, ws, capfd):
        export(capfd)
        path = ws.root / "pkg/AGENTS.md"
        path.write_text(path.read_text() + "Mine.\n")
        ws.path("pkg/.halo/INSTRUCTIONS.md").unlink()
        self.refused(ws, capfd, "pkg/AGENTS.md was changed since")
        assert path.exists()

    def test_what_no_rules_lead_to_is_none_of_its_business(self, ws, capfd):
        ws.write({"other/AGENTS.md": "Mine.\n"})
        assert export(capfd)[0] == 0
        assert (ws.root / "other/AGENTS.md").read_text() == "Mine.\n"

    @pytest.mark.parametrize("target", ["CLAUDE.md", "nowhere", "../outside.md"])
    def test_a_link(self, ws, capfd, target):
        """Nothing is written through it, and it is not replaced."""
        ws.write({"CLAUDE.md": "Mine.\n", "../outside.md": "Outside.\n"})
        os.symlink(target, ws.root / "AGENTS.md")
        self.refused(ws, capfd, "AGENTS.md is a link, or lies behind one")
        assert os.readlink(ws.root / "AGENTS.md") == target
        assert (ws.root / "../outside.md").read_text() == "Outside.\n"

    def test_what_is_no_text(self, ws, capfd):
        (ws.root / "AGENTS.md").mkdir()
        (ws.root / "pkg/AGENTS.md").write_bytes(b"\xff")
        self.refused(
            ws, capfd, "AGENTS.md is there, and is no text file", "pkg/AGENTS.md is there, and is no"
        )


class TestIntoAnotherFolder:
    def test_it_is_made(self, ws, capfd, tmp_path):
        code, out, _ = export(capfd, str(tmp_path / "a" / "b"))
        assert (code, out[0]) == (0, "made    AGENTS.md")
        assert (tmp_path / "a/b/pkg/deep/AGENTS.md").read_text().endswith("\n\nDeep rules.\n")
        assert bodies(ws) == {}

    def test_a_link_below_it_is_not_followed(self, ws, capfd, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "elsewhere").mkdir()
        os.symlink(tmp_path / "elsewhere", tmp_path / "out" / "pkg")
        code, _, err = export(capfd, str(tmp_path / "out"))
        assert code == 2
        assert "pkg/AGENTS.md is a link, or lies behind one" in err
        assert os.listdir(tmp_path / "elsewhere") == []

    def test_a_file_in_its_place(self, ws, capfd):
        assert export(capfd, ".halo/USER.md")[0] == 2


def test_a_workspace_without_anything_to_say(make_workspace, monkeypatch, capfd):
    monkeypatch.chdir(make_workspace({".halo/USER.md": "U"}).root)
    assert export(capfd) == (
        0,
        [],
        "nothing to export: no instructions, index, skills or rules of directories\n",
    )


def test_lines_that_only_quiet_a_rule_of_halo_check_are_left_out(ws, capfd):
    ws.write({".halo/INSTRUCTIONS.md": "A.\n<!-- halo: ignore H702 -->\nB."})
    export(capfd)
    assert bodies(ws)["AGENTS.md"].startswith("A.\nB.\n\n## Project")


@pytest.mark.parametrize("mode", ["chain", "nearest"])
def test_what_was_exported_is_not_in_a_prompt_twice(ws, capfd, mode):
    """The way out and back: with AGENTS.md switched on, a prompt is what it was."""
    before = ws.cli("prompt", "--dir", "pkg/deep").stdout
    export(capfd)
    ws.write({".halo/settings.yaml": f"general: {{prompt: {{instruction_files: {{agents_md: {mode}}}}}}}\n"})
    after = ws.cli("prompt", "--dir", "pkg/deep")
    assert after.stdout == before
    assert "AGENTS.md is left out: Halo exported it from its own layers [instruction-export]" in after.stderr


def test_a_clone_exports_the_same_bytes(ws, make_workspace, capfd, monkeypatch):
    export(capfd)
    first = {p.relative_to(ws.root): p.read_bytes() for p in ws.root.rglob("AGENTS.md")}
    clone = make_workspace({key: text for key, text in LAYERS.items() if not key.startswith("global:")})
    monkeypatch.setenv("HALO_HOME", str(clone.home))
    assert export(capfd, "-w", str(clone.root))[0] == 0
    assert {p.relative_to(clone.root): p.read_bytes() for p in clone.root.rglob("AGENTS.md")} == first
