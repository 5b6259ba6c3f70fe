"""The commands as a user meets them: output, exit codes, and what each says of a mistake."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
import yaml
from making import agent

from halo.cli.main import run

HEAVY = ("openai", "anthropic", "httpx2", "asyncio", "jinja2", "xllamacpp", "doit")


@pytest.fixture
def ws(make_workspace, monkeypatch):
    """A workspace with one small agent, as the current directory."""
    made = make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", tools=["file_read"]),
            ".halo/agents/default/AGENT.md": "You lead.\n",
            ".halo/agents/worker/agent.yaml": agent(),
            ".halo/USER.md": "Mira.\n",
            "docs/.halo/INSTRUCTIONS.md": "Docs are short.\n",
        }
    )
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HALO_CACHE", str(made.home / "cache"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


def imported(ws, *arguments):
    """The heavy modules that a halo command has imported by its end."""
    code = (
        "import sys\nfrom halo.__main__ import main\n"
        f"sys.argv = ['halo', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = ws.run("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


# start-up


def test_version_and_prompt_import_nothing_heavy(ws):
    assert imported(ws, "--version") == []
    assert imported(ws, "prompt") == []  # compiles
    assert imported(ws, "prompt") == []  # answers from the pointer
    assert imported(ws, "prompt", "--layers") == []


def test_a_real_build_imports_doit_and_nothing_else_heavy(ws):
    assert imported(ws, "build") == ["doit"]


def test_only_the_command_that_needs_it_imports_click(ws):
    done = ws.run("-X", "importtime", "-m", "halo", "--version")
    assert done.stdout.startswith("halo 0.")
    assert "click" not in done.stderr
    assert "msgspec" not in done.stderr


def test_the_very_first_prompt_after_a_build_imports_no_library(ws):
    """A build opens the gates of its agents, so a fresh artifact is quick from the first call on."""
    assert ws.cli("build").returncode == 0
    done = ws.run("-X", "importtime", "-m", "halo", "prompt")
    assert done.stdout.startswith("## User Profile")
    assert "msgspec" not in done.stderr
    assert "click" not in done.stderr


# prompt


def test_the_prompt_alone_is_on_stdout(ws, capfd):
    assert run(["prompt"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("## User Profile\n\nMira.\n\n---\n\nYou lead.\n")
    assert out.endswith("The project workspace is at: {{workspace_root}}\n")
    assert err == ""


def test_quick_answers_are_the_same_as_slow_ones(ws):
    """The first call compiles, the second asks the pointer, later ones the gate: all print the same bytes."""
    outputs = {ws.cli("prompt", "-a", "default").stdout for _ in range(3)}
    os.utime(ws.halo / "USER.md", (1, 1))
    outputs.add(ws.cli("prompt").stdout)
    assert len(outputs) == 1


def test_a_prompt_is_filled_when_asked(ws, capfd):
    assert run(["prompt", "--fill", "--dir", "docs", "--role", "sub"]) == 0
    out = capfd.readouterr().out
    assert f"The workspace root is: {ws.root}\nWorking directory: {ws.root}/docs\n" in out


def test_a_table_is_of_the_unfilled_prompt(ws, capfd):
    assert run(["prompt", "--layers", "--fill"]) == 2
    assert "leave --fill away" in capfd.readouterr().err


def test_an_agent_that_stands_alone_is_answered_with_its_option(ws, capfd):
    assert run(["prompt", "default"]) == 2
    assert "unexpected word 'default'; an agent is named by -a default" in capfd.readouterr().err


def test_layers_are_a_table(ws, capfd):
    assert run(["prompt", "--layers", "--dir", "docs"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "default · root · docs"
    assert lines[1].split() == ["segment", "scope", "file", "lines", "tokens", "(estimate)", "share"]
    assert lines[2].split()[:4] == ["user", "workspace", "workspace:.halo/USER.md", "1-3"]
    assert [line.split()[0] for line in lines][-3:] == ["environment", "tool", "total"]
    assert "volatile" in lines[-3]
    assert "workspace:docs/.halo/INSTRUCTIONS.md" in "\n".join(lines)


def test_a_directory_may_be_named_in_any_way(ws, capfd):
    outputs = set()
    for name in ("docs", "./docs/", str(ws.root / "docs"), "docs/../docs"):
        assert run(["prompt", "--dir", name]) == 0
        outputs.add(capfd.readouterr().out)
    assert len(outputs) == 1
    assert run(["prompt", "--dir", "."]) == 0
    assert "Working directory" not in capfd.readouterr().out


@pytest.mark.parametrize("name", ["..", "/", "nope", "docs/../../x"])
def test_a_directory_outside_is_the_users_mistake(ws, capfd, name):
    assert run(["prompt", "--dir", name]) == 2
    assert "directory" in capfd.readouterr().err


def test_frozen_refuses_what_is_stale(ws, capfd):
    assert run(["prompt", "--frozen"]) == 1
    assert "was not built yet" in capfd.readouterr().err
    assert run(["prompt"]) == 0
    assert run(["prompt", "--frozen"]) == 0
    ws.write({".halo/USER.md": "Somebody else.\n"})
    capfd.readouterr()
    assert run(["prompt", "--frozen"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "workspace:.halo/USER.md changed" in err


# mistakes


def test_an_unknown_agent_names_near_misses(ws, capfd):
    assert run(["prompt", "-a", "wroker"]) == 2
    assert capfd.readouterr().err == "halo: unknown agent 'wroker'\n  did you mean 'worker'?\n"


def test_an_unknown_command_names_near_misses(capfd):
    assert run(["biuld"]) == 2
    assert "did you mean 'build'?" in capfd.readouterr().err


@pytest.mark.parametrize("command", [["build"], ["prompt"], ["run", "hello"], ["trust"]])
def test_a_missing_workspace_is_said_once(tmp_path, monkeypatch, capfd, command):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "no .halo/ folder" in err
    assert "halo init" in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_halos_own_home_is_no_workspace(tmp_path, monkeypatch, capfd):
    """`~/.halo` is where the global folder lies; it must not turn the home folder into a workspace."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HALO_HOME", raising=False)
    (tmp_path / ".halo" / "global").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert run(["prompt"]) == 2
    assert "no .halo/ folder" in capfd.readouterr().err


BROKEN = [
    ("agent.yaml", "model: {provider: openai, id: m\nname: x\n", ":2:", "YAML"),
    ("agent.yaml", "model: {provider: openai, id: m}\nnmae: x\n", ":2:", "did you mean 'name'?"),
    (
        "agent.yaml",
        "model: {provider: openai, id: m}\ntools: [file_raed]\n",
        ":2:",
        "did you mean 'file_read'?",
    ),
    ("agent.yaml", "model: {provider: openai, id: m}\nteam:\n- wroker\n", ":3:", "did you mean 'worker'?"),
    ("agent.yaml", "model: {provider: openai, id: m}\nskills: [skil]\n", ":2:", "did you mean 'skill'?"),
    ("agent.yaml", "model: {provider: openai, id: m, top_k: many}\n", ":1:", "model.top_k"),
    ("agent.yaml", "name: x\n", ":1:", "model"),
    ("agent.yaml", b"\xff\xfe", ":1:", "UTF-8"),
]


@pytest.mark.parametrize(("name", "text", "line", "said"), BROKEN)
def test_a_broken_agent_names_file_and_line_and_leaves_the_old_artifact(ws, capfd, name, text, line, said):
    assert run(["build"]) == 0
    before = ws.artifacts()
    path = ws.halo / "agents" / "default" / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    capfd.readouterr()
    assert run(["build"]) == 1
    err = capfd.readouterr().err
    assert f"workspace:.halo/agents/default/{name}{line}" in err
    assert said in err
    assert "Traceback" not in err
    assert ws.artifacts() == before
    assert run(["run", "hello"]) == 1
    assert not (ws.halo / "sessions").exists()


def test_debug_shows_the_traceback(ws):
    """And changes nothing else: the exit code is the same."""
    done = ws.cli("--debug", "prompt", "-a", "wroker")
    assert done.returncode == ws.cli("prompt", "-a", "wroker").returncode == 2
    assert "Traceback" in done.stderr
    assert "UnknownNameError" in done.stderr


def test_a_reader_that_goes_away_is_no_error_message(ws):
    done = subprocess.run(
        f"{sys.executable} -m halo prompt --layers | head -1",
        shell=True,
        cwd=ws.root,
        env=ws.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "default · root\n"
    assert "Traceback" not in done.stderr


# init


def test_init_makes_a_workspace_that_compiles(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "new"
    assert run(["init", str(folder)]) == 0
    assert (folder / "dodo.py").read_text().startswith("from halo.dodo import *")
    assert run(["build", "-w", str(folder)]) == 0
    assert run(["prompt", "-w", str(folder)]) == 0
    assert "{{workspace_root}}" in capfd.readouterr().out


def test_init_here_has_one_spelling_of_paths_and_goes_nowhere(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path / "ws")
    assert run(["init"]) == 0
    err = capfd.readouterr().err
    assert "made    .halo/INDEX.md\n" in err
    assert "made    .halo/.gitignore\n" in err
    assert "made    .halo/schemas/agent.json\n" in err
    assert "./" not in err
    assert err.endswith('\nnext: halo model pull && halo run "Hello"\n')
    assert run(["init", "./my project"]) == 0
    assert "next: cd 'my project' && halo model pull" in capfd.readouterr().err


def test_a_workspace_in_a_workspace_is_made_and_said(tmp_path, monkeypatch, capfd):
    """Also where a directory had only rules, which it then has no more: it is the workspace."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path / ".halo"))  # the home is no workspace
    (tmp_path / ".halo").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer" / "ruled" / ".halo").mkdir(parents=True)
    (tmp_path / "outer" / "ruled" / ".halo" / "INSTRUCTIONS.md").write_text("Rules.\n")
    for folder, above in [("outer", ""), ("outer/a/b", "outer"), ("outer/ruled", "outer"), ("outer", "")]:
        assert run(["init", folder]) == 0
        warned = f"warning: {folder} lies in the workspace {tmp_path / above};"
        assert (warned in capfd.readouterr().err) is bool(above)


def test_init_of_the_home_takes_no_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    assert run(["init", "--global", "x"]) == 2
    assert "leave x away" in capfd.readouterr().err
    assert not (tmp_path / "home").exists()


def test_init_makes_nothing_where_the_keys_would_lie_in_reach(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    assert run(["init", str(tmp_path)]) == 3
    assert "set HALO_HOME to a folder elsewhere" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dodo_file_that_is_kept_is_told_what_it_needs(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "ws"
    folder.mkdir()
    for text, hint in [("def task_x(): ...\n", True), ("from halo.dodo import *\n", False)]:
        (folder / "dodo.py").write_text(text)
        assert run(["init", str(folder)]) == 0
        assert ("for doit it needs the line: from halo.dodo import *" in capfd.readouterr().err) is hint


def test_init_never_overwrites(tmp_path, capfd):
    folder = tmp_path / "new"
    (folder / ".halo").mkdir(parents=True)
    (folder / ".halo" / "INDEX.md").write_text("mine\n")
    (folder / "dodo.py").symlink_to("nowhere.py")
    assert run(["init", str(folder)]) == 0
    assert run(["init", str(folder)]) == 0
    assert (folder / ".halo" / "INDEX.md").read_text() == "mine\n"
    assert os.readlink(folder / "dodo.py") == "nowhere.py"
    assert "made" not in capfd.readouterr().err.rpartition("next:")[0].rpartition("next:")[2]


def test_what_machines_make_is_ignored_by_git(tmp_path, monkeypatch):
    """`.halo/.gitignore` keeps artifacts, build, sessions, traces, batch and evo/runs out, layers in."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "new"
    assert run(["init", str(folder)]) == 0
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    ignored = [
        "artifacts/x/prompt.md",
        "build/gate.txt",
        "sessions/2026-11/s/events.jsonl",
        "traces/t",
        "batch/b",
    ]
    ignored += ["evo/runs/r/patch.md"]
    kept = [
        "USER.md",
        "settings.yaml",
        "mcp.lock.json",
        "probes/p.yaml",
        "evo/history/a.md",
        "agents/a/agent.yaml",
    ]
    for name in (*ignored, *kept):
        path = folder / ".halo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    listed = subprocess.run(
        ["git", "-C", str(folder), "ls-files", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert all(f".halo/{name}" not in listed for name in ignored)
    assert all(f".halo/{name}" in listed for name in kept)


def test_init_global_seeds_the_home_and_hides_the_keys(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HALO_HOME", str(home))
    assert run(["init", "--global"]) == 0
    assert (home / "global" / "agents" / "default" / "agent.yaml").exists()
    assert (home / "global" / "prompts" / "all" / "TOOL_GUIDELINES.md").exists()
    assert (home / "secrets" / "settings.yaml").stat().st_mode & 0o777 == 0o600
    assert (home / "secrets").stat().st_mode & 0o777 == 0o700
    (home / "secrets" / "settings.yaml").write_text("mine: {}\n")
    assert run(["init", "--global"]) == 0
    assert (home / "secrets" / "settings.yaml").read_text() == "mine: {}\n"


# trust


def test_trust_shows_what_is_asked_and_records_it(ws, capfd):
    assert run(["trust", "-y"]) == 0
    assert "asks for nothing" in capfd.readouterr().out
    endpoint = "https://models.example.org/v1"
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent(
                model={"provider": "openai", "id": "m", "endpoint": endpoint}
            )
        }
    )
    assert run(["trust", "-y"]) == 0
    assert endpoint in capfd.readouterr().out
    recorded = yaml.safe_load((ws.home / "trust.yaml").read_text())
    assert list(recorded["workspaces"]) == [str(ws.root)]
    assert (ws.home / "trust.yaml").stat().st_mode & 0o777 == 0o600
    assert run(["trust", "--revoke"]) == 0
    assert yaml.safe_load((ws.home / "trust.yaml").read_text())["workspaces"] == {}


def test_a_key_does_not_go_to_a_foreign_endpoint(ws, monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    model = {"provider": "openai", "id": "m", "endpoint": "https://models.example.org/v1"}
    ws.write({".halo/agents/default/agent.yaml": agent(model=model)})
    assert run(["run", "hello"]) == 3
    err = capfd.readouterr().err
    assert "halo trust" in err
    assert "sk-very-secret" not in err
    assert not (ws.halo / "sessions").exists()


# doctor, model


def test_doctor_says_what_is_missing_and_how_to_get_it(ws, capfd, monkeypatch):
    assert run(["doctor"]) == 1
    out, err = capfd.readouterr()
    assert "missing  openai key: not set" in out
    assert "OPENAI_API_KEY" in out
    assert "missing  local model" in out
    assert "no provider can answer yet" in err
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert run(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "ok       openai key: set" in out
    assert "sk-very-secret" not in out


def test_doctor_works_outside_a_workspace(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run(["doctor"])
    out = capfd.readouterr().out
    assert "missing  workspace" in out
    assert "missing  git" in out
    assert "bubblewrap: " in out  # looked for where the system keeps it, not on PATH


def test_models_are_listed_and_removed(ws, capfd):
    assert run(["model", "list"]) == 0
    assert "smollm2-135m-instruct" in capfd.readouterr().out
    assert run(["model", "rm", "smollm2-135m-instruct"]) == 0
    assert run(["model", "pull", "smollm3"]) == 2
    assert capfd.readouterr().err == "halo: unknown model 'smollm3'\n  known: smollm2-135m-instruct\n"


# the wheel


def test_the_wheel_holds_the_templates(tmp_path, monkeypatch):
    """Build the wheel, unpack it elsewhere, and use it: the resolver finds the templates inside."""
    repository = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("halo_make-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    for command in (["init", "ws"], ["build", "-w", "ws"], ["prompt", "-w", "ws", "-a", "reviewer"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "halo", *command],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert str(repository) not in json.dumps(done.stdout)
    assert "file_read" in done.stdout


# what other machines are like


def test_a_prompt_is_the_same_bytes_in_every_locale(ws):
    """A terminal that cannot show a letter is no reason to refuse or change a prompt."""
    ws.write({".halo/USER.md": "Grüße, 你好.\n"})
    odd = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    outputs = set()
    for more in ({}, odd, odd):
        done = subprocess.run(
            [sys.executable, "-m", "halo", "prompt"],
            cwd=ws.root,
            env=ws.environ(**more),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    layers = ws.cli("prompt", "--layers", **odd)
    assert layers.returncode == 0
    assert len(outputs) == 1
    assert "Grüße, 你好." in outputs.pop().decode()


def test_a_directory_that_may_not_be_read_stops_nothing(ws, capfd, monkeypatch):
    """The data folder of a database, say: it is named, and everything else is built."""
    from halo.errors import TreeError
    from halo.files.tree import DiskTree

    ws.write({"pgdata/x": ""})
    real = DiskTree.list

    def closed(self, path):
        if path == "workspace:pgdata":
            raise TreeError("permission denied", file=path)  # root may read everything
        return real(self, path)

    monkeypatch.setattr(DiskTree, "list", closed)
    assert run(["build"]) == 0
    out, err = capfd.readouterr()
    assert "workspace:pgdata: warning: rules in it are not seen: permission denied [closed-directory]" in err
    assert "built" in out


def test_a_layer_that_breaks_many_prompts_is_explained_once(ws, capfd):
    ws.write({".halo/INSTRUCTIONS.md": "---\na: [\n---\nx\n"})
    assert run(["build"]) == 1
    err = capfd.readouterr().err
    assert err.count("not valid YAML") == 1
    assert err.count("  as default/root") >= 2


def test_doit_without_a_workspace_says_so(tmp_path, ws):
    (tmp_path / "dodo.py").write_text("from halo.dodo import *\n")
    for command in (["list"], []):
        done = subprocess.run(
            [sys.executable, "-m", "doit", *command],
            cwd=tmp_path,
            env=ws.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 3
        assert "no .halo/ folder" in done.stderr
        assert "Traceback" not in done.stderr


def test_init_does_not_turn_the_home_into_a_workspace(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HALO_HOME", raising=False)
    assert run(["init", str(tmp_path)]) == 2
    assert "own home" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_skill_called_root_does_not_answer_for_an_agent(ws, capfd):
    """`build/skills/` lies beside the agents' folders; no agent may be called so."""
    ws.write({".halo/skills/root/SKILL.md": "Body.\n"})
    assert run(["build"]) == 0
    assert ws.cli("prompt", "-a", "skills").returncode == 2
    ws.write({".halo/agents/skills/agent.yaml": agent()})
    capfd.readouterr()
    assert run(["build"]) == 0
    assert "an agent cannot be called 'skills' [unusable-name]" in capfd.readouterr().err


def test_closed_and_full_streams_are_no_traceback(ws):
    run(["build"])
    for command, code in (
        ("halo --version >&-", 0),
        ("halo prompt >&-", 0),
        ("halo prompt >/dev/full", 1),
        ("halo prompt --layers >/dev/full", 1),
        ("halo prompt | true", None),
        ("halo run <&- hello", 3),
    ):
        script = command.replace("halo", f"{sys.executable} -m halo", 1)
        done = subprocess.run(
            ["bash", "-c", script], cwd=ws.root, env=ws.environ(), capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, command
        assert "Exception ignored" not in done.stderr, command
        if code is not None:
            assert done.returncode == code, (command, done.stderr)


def test_a_message_is_read_as_the_bytes_that_were_typed(ws):
    """In whatever locale; what is not UTF-8 is refused before a session is touched."""
    odd = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ws.write({".halo/agents/default/agent.yaml": agent(model={"provider": "openai", "id": "m"})})
    for message, said in ((b"Gr\xc3\xbc\xc3\x9fe", b"OPENAI_API_KEY"), (b"caf\xe9", b"not UTF-8 (byte 4)")):
        done = subprocess.run(
            [sys.executable, "-m", "halo", "run", message],
            cwd=ws.root,
            env=ws.environ(**odd),
            capture_output=True,
            check=False,
        )
        assert said in done.stderr
        assert b"Traceback" not in done.stderr
    assert not (ws.halo / "sessions").exists()


def test_pulling_a_model_runs_no_code_of_the_current_folder(ws, tmp_path):
    """`python -m pip` would take a pip.py of the workspace for pip."""
    ws.write(
        {
            "pip.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n",
            "pip/__init__.py": "",
            "pip/__main__.py": "1/0\n",
        }
    )
    ws.cli(
        "model", "pull", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_RETRIES="0", HALO_CACHE=str(tmp_path / "c")
    )
    assert not (tmp_path / "ran").exists()


def test_trust_shows_no_control_characters(ws, capfd):
    """An address that moves the cursor could hide the line above it."""
    endpoint = "http://x/\x1b[1A\x1b[2K"
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent(
                model={"provider": "openai", "id": "m", "endpoint": endpoint}
            )
        }
    )
    run(["trust", "-y"])
    assert "\x1b" not in "".join(capfd.readouterr())
    assert run(["build"]) == 1
    assert "printable ASCII" in capfd.readouterr().err
