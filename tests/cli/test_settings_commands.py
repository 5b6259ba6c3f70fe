"""`halo settings`, `halo schema`, `halo agent`, `halo skill`: what people do to settings.yaml."""

import json
import os

import fastjsonschema
import pytest
from making import REPOSITORY, agent, skill

from halo.cli.main import run
from halo.files.canonical import readable_json
from halo.workspace.yaml_schemas import FILES, yaml_schema
from halo.workspace.yamldoc import load_yaml

WORKSPACE = {
    ".halo/agents/default/agent.yaml": agent(team=["helper"], skills=["s"], description="leads"),
    ".halo/agents/default/AGENT.md": "You lead.",
    ".halo/agents/helper/agent.yaml": agent(description="helps"),
    ".halo/skills/s/SKILL.md": skill("Sum.", description="sums"),
    ".halo/settings.yaml": "# mine\ns:\n  params:\n    k: v  # why\n",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name, text in WORKSPACE.items():
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "ws")
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "ws"


def prompt(capsys, *words):
    assert run(["prompt", *words]) == 0
    return capsys.readouterr().out


def test_an_agent_is_switched_off_and_on_again(here, capsys):
    assert "`helper`" in prompt(capsys)
    assert run(["agent", "disable", "helper"]) == 0
    assert "`helper`" not in prompt(capsys)
    assert run(["prompt", "-a", "helper"]) == 2
    assert "halo agent enable helper" in capsys.readouterr().err
    assert run(["agent", "list"]) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines() if "helper" in line] == [
        ["helper", "workspace", "disabled"]
    ]
    assert run(["agent", "enable", "helper"]) == 0
    assert "`helper`" in prompt(capsys)
    text = (here / ".halo/settings.yaml").read_text()
    assert text.startswith("# mine\ns:\n  params:\n    k: v  # why\n")


def test_a_skill_is_switched_off(here, capsys):
    assert run(["skill", "disable", "workspace:s"]) == 0
    assert "available_skills" not in prompt(capsys)
    assert run(["build"]) == 0
    assert run(["skill", "disable", "s"]) == 0
    assert run(["skill", "enable", "s"]) == 0
    assert "still disabled as workspace:s" in capsys.readouterr().err


def test_an_unknown_name_is_answered_with_near_misses_and_changes_nothing(here, capsys):
    before = (here / ".halo/settings.yaml").read_bytes()
    assert run(["agent", "disable", "helpr"]) == 2
    assert "helper" in capsys.readouterr().err
    assert run(["skill", "disable", "../s"]) == 2
    assert (here / ".halo/settings.yaml").read_bytes() == before


def test_values_are_shown_with_their_place(here, capsys):
    assert run(["settings"]) == 0
    row = capsys.readouterr().out.split()
    assert row == ["s.params.k", "v", "workspace:.halo/settings.yaml:4", "undeclared"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("general: {promt: {}}", "unknown key 'promt'"),
        ("general:\n  prompt:\n    sections: [safty]", "general.prompt.sections"),
        ("general:\n  disabled:\n    agent: [x]", "did you mean"),
    ],
)
def test_a_mistake_in_the_settings_names_file_and_line(here, capsys, text, message):
    (here / ".halo/settings.yaml").write_text(text)
    for command in (["settings"], ["prompt"], ["build"]):
        assert run(command) in (1, 2)
        assert "settings.yaml:" in capsys.readouterr().err
    run(["settings"])
    assert message.rpartition(".")[2] in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(FILES))
def test_schemas_are_valid_and_accept_what_halo_accepts(name, capsys):
    assert run(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(readable_json(yaml_schema(name)))
    validate = fastjsonschema.compile(
        {**yaml_schema(name), "$schema": "http://json-schema.org/draft-07/schema#"}
    )
    pattern = {
        "agent": "agents/*/agent.yaml",
        "config": "skills/*/config.yaml",
        "models": "models/*.yaml",
        "settings": "settings.yaml",
    }[name]
    files = [
        *(REPOSITORY / "templates").rglob(pattern),
        *(REPOSITORY / "workspace_example/.halo").glob(pattern),
    ]
    assert files or name == "config"
    for path in files:
        validate(load_yaml(path.read_text(), str(path)).value)


def test_schemas_refuse_what_halo_refuses():
    validate = fastjsonschema.compile(yaml_schema("agent"))
    for wrong in (
        {},
        {"model": {"provider": "nobody", "id": "m"}},
        {"model": {"provider": "local", "id": "m"}, "tols": []},
    ):
        with pytest.raises(fastjsonschema.JsonSchemaException):
            validate(wrong)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize(
    ("command", "place"),
    [(["skill", "enable", "s"], ".halo/settings.yaml"), (["init"], ".halo/schemas/agent.json")],
)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(here, capsys, command, place):
    path = here / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert run(command) == 1
    assert "not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["agent", "settings"])
def test_an_editor_can_explain_every_key(name):
    """A key that leads to another map is explained there."""
    schema = yaml_schema(name)
    shown = {
        (kind, key): "description" in field or "$ref" in field
        for kind, part in schema["$defs"].items()
        for key, field in part["properties"].items()
    }
    assert shown
    assert [where for where, explained in shown.items() if not explained] == []
    assert all("description" in part for part in schema["$defs"].values())


def test_the_example_has_the_schemas_of_this_version():
    for name in FILES:
        file = REPOSITORY / f"workspace_example/.halo/schemas/{name}.json"
        assert file.read_bytes() == readable_json(yaml_schema(name))
