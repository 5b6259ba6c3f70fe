"""`halo check` as a command: exit codes, formats, and what it leaves alone."""

import json
import os

import pytest
from making import agent

from halo.cli.main import run

LAYERS = {
    ".halo/agents/default/agent.yaml": agent(description="leads"),
    ".halo/agents/default/AGENT.md": "You lead.\n",
    ".halo/INSTRUCTIONS.md": "Be brief.\n",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    write(tmp_path / "ws", LAYERS)
    monkeypatch.chdir(tmp_path / "ws")
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "ws"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_sound_workspace_passes_and_nothing_is_written(here, capsys):
    before = sorted(os.walk(here))
    assert run(["check"]) == 0
    assert ": error: " not in capsys.readouterr().out
    assert sorted(os.walk(here)) == before


def test_what_is_found_fails(here, capsys):
    write(here, {".halo/INSTRUCTIONS.md": "Be\u200b brief.\n"})
    assert run(["check"]) == 1
    assert ".halo/INSTRUCTIONS.md:1: error: " in capsys.readouterr().out


def test_a_remark_alone_does_not_fail(here, capsys):
    write(
        here, {".halo/agents/lone/agent.yaml": agent(description="alone"), ".halo/agents/lone/AGENT.md": "x"}
    )
    assert run(["check"]) == 0
    assert "[H501 unused-agent]" in capsys.readouterr().out


def test_the_global_folder_counts_only_when_asked(here, capsys, tmp_path):
    write(tmp_path / "home", {"global/USER.md": "Mi\u200bra.\n"})
    assert run(["check"]) == 0
    assert run(["check", "--global"]) == 1
    assert "global:USER.md:1: error: " in capsys.readouterr().out


def test_formats_are_for_programs(here, capsys):
    write(here, {".halo/INSTRUCTIONS.md": "Be\u200b brief.\n"})
    assert run(["check", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"]
    assert run(["check", "--format", "sarif"]) == 1
    (result, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == ".halo/INSTRUCTIONS.md"
    assert location["region"] == {"startLine": 1}
    assert run(["check", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=.halo/INSTRUCTIONS.md,line=1,title=H701")


def test_a_budget_fails_a_prompt_that_grew(here, capsys):
    assert run(["check", "--budget", "100000"]) == 0
    assert run(["check", "--budget", "10"]) == 1
    assert "[H604 over-budget]" in capsys.readouterr().out
    assert run(["check", "--budget", "0"]) == 2


def test_builtin_agents_have_a_budget_when_they_are_named(here, capsys):
    run(["check", "--budget", "10"])
    assert "worker · " not in capsys.readouterr().out
    assert run(["check", "--budget", "10", "-a", "worker", "-a", "reviewer"]) == 1
    out = capsys.readouterr().out
    assert "worker · root has" in out
    assert "reviewer · root has" in out
    assert "default · root has" not in out
    assert run(["check", "-a", "wroker"]) == 2
    assert "did you mean 'worker'?" in capsys.readouterr().err


@pytest.mark.parametrize("git", ["folder", "file"])
def test_in_a_repository_paths_are_from_its_top(tmp_path, monkeypatch, capsys, git):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    write(tmp_path / "mono/svc/api", {**LAYERS, ".halo/INSTRUCTIONS.md": "Be\u200b brief.\n"})
    write(tmp_path / "mono", {".git/HEAD": "x"} if git == "folder" else {".git": "gitdir: elsewhere\n"})
    monkeypatch.chdir(tmp_path / "mono")
    assert run(["check", "-w", "svc/api", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=svc/api/.halo/INSTRUCTIONS.md,line=1,")
    assert run(["check", "-w", "svc/api", "--format", "sarif"]) == 1
    (result, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "svc/api/.halo/INSTRUCTIONS.md", "uriBaseId": "%SRCROOT%"}


def test_the_workspace_is_named_where_it_is_not_here(here, capsys, monkeypatch):
    run(["check"])
    assert not capsys.readouterr().out.startswith("in ")
    monkeypatch.chdir(here / ".halo")
    run(["check"])
    assert capsys.readouterr().out.splitlines()[0] == f"in {here}:"


def test_what_init_writes_has_no_finding(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    assert run(["init", str(tmp_path / "new")]) in (0, None)
    monkeypatch.chdir(tmp_path / "new")
    capsys.readouterr()
    assert run(["check", "-a", "default"]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith((".halo/", "dodo"))]
    assert found == []


BROKEN_SETTINGS = "general: {promt: {}}\n"


def test_settings_that_cannot_be_read_are_a_finding_for_programs(here, capsys):
    write(here, {".halo/settings.yaml": BROKEN_SETTINGS})
    assert run(["check", "--format", "json"]) == 1
    out, err = capsys.readouterr()
    (finding,) = json.loads(out)["findings"]
    assert (finding["rule"], finding["severity"]) == ("H101", "error")
    assert (finding["source"], finding["line"]) == ("workspace:.halo/settings.yaml", 1)
    assert "promt" in finding["message"]
    assert err == ""

    assert run(["check", "--format", "sarif"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == ".halo/settings.yaml"
    assert place["region"] == {"startLine": 1}

    assert run(["check", "--format", "github"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=.halo/settings.yaml,line=1,title=H101 does-not-compile::")


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_settings_of_any_brokenness_are_a_finding_for_programs(here, capsys, form):
    for text in (b"general: [\n", b"\xff\xfe", b"- a list\n", b"x: " + b"y" * (5 << 20)):
        (here / ".halo/settings.yaml").write_bytes(text)
        assert run(["check", "--format", form]) == 1
        out, err = capsys.readouterr()
        assert "H101" in out
        assert ".halo/settings.yaml" in out
        assert err == ""


def test_a_wrong_name_is_a_mistake_in_the_command_in_every_format(here, capsys):
    assert run(["check", "--format", "json", "-a", "defualt"]) == 2
    assert capsys.readouterr().out == ""


def test_settings_that_cannot_be_read_are_the_users_mistake(here, capsys):
    write(here, {".halo/settings.yaml": "general: {promt: {}}\n"})
    assert run(["check"]) in (1, 2)
    assert "workspace:.halo/settings.yaml:1" in capsys.readouterr().err
