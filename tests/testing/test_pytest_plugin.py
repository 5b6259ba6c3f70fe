"""The pytest plugin as a user has it: a workspace, a test of three lines, a real pytest."""

import os
import subprocess
import sys
import textwrap

import pytest
from making import agent

TEST = """
def test_prompts(halo_target, halo_prompt, halo_snapshot):
    assert halo_prompt(halo_target) == halo_snapshot
"""

LAYERS = {
    ".halo/agents/default/agent.yaml": agent(name="Ada", team=["helper"], description="leads"),
    ".halo/agents/default/AGENT.md": "You lead.\n",
    ".halo/agents/helper/agent.yaml": agent(name="Bo", description="helps"),
    ".halo/agents/helper/AGENT.md": "You help.\n",
    ".halo/INSTRUCTIONS.md": "# Rules\n\nBe brief.\nNever force-push.\n",
    ".halo/USER.md": "Mira.\n",
    "tests/test_prompts.py": TEST,
}


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "ws"
    write(root, LAYERS)
    return root


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


def pytest_run(root, *words, home=None, plugins=()):
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(root.parent),
        "HALO_HOME": str(home or root.parent / "home"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    loaded = [word for name in ("halo.testing.plugin", "syrupy", *plugins) for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *loaded, *words]
    return subprocess.run(
        command, cwd=root, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def snapshots(root):
    folder = root / "tests/__snapshots__/test_prompts"
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_one_readable_file_a_prompt(project):
    assert pytest_run(project, "--snapshot-update").returncode == 0
    found = snapshots(project)
    assert sorted(found) == [
        f"test_prompts[{name}-{role}].md" for name in ("default", "helper") for role in ("root", "sub")
    ]
    assert found["test_prompts[default-root].md"].startswith("## User Profile\n\nMira.\n\n---\n\nYou lead.\n")
    assert pytest_run(project).returncode == 0
    assert not (project / ".halo/artifacts").exists()


def test_a_failing_snapshot_names_the_layer(project):
    pytest_run(project, "--snapshot-update")
    write(project, {".halo/INSTRUCTIONS.md": "# Rules\n\nBe brief.\nNever push at night.\n"})
    done = pytest_run(project)
    assert done.returncode == 1
    assert "the prompt default · root is not its snapshot" in done.stdout
    assert "segment instructions · workspace:.halo/INSTRUCTIONS.md:4" in done.stdout
    assert "- Never force-push." in done.stdout
    assert "+ Never push at night." in done.stdout


def test_a_snapshot_that_was_never_written_says_how_to_write_it(project):
    done = pytest_run(project, "-k", "helper-sub")
    assert done.returncode == 1
    assert "the prompt helper · sub has no snapshot yet; to write it: pytest --snapshot-update" in done.stdout


def test_a_broken_layer_is_a_message_and_no_tour_of_halo(project):
    """In the line of the test that asked; where agents are listed, in place of the tests."""
    write(project, {".halo/agents/helper/agent.yaml": "model: 1\n"})
    done = pytest_run(project, "-k", "helper-sub")
    assert done.returncode == 1
    assert "agents/helper/agent.yaml:1: model: expected text or a map, got a whole number" in done.stdout
    assert "assert halo_prompt(halo_target) == halo_snapshot" in done.stdout
    assert "def " not in done.stdout.replace("def test_prompts", "")
    assert "halo/workspace" not in done.stdout
    write(project, {".halo/settings.yaml": "general: 1\n"})
    done = pytest_run(project)
    assert done.returncode == 2
    assert "workspace:.halo/settings.yaml:1: general: " in done.stdout
    assert "halo/workspace" not in done.stdout
    assert "Traceback" not in done.stdout


def test_a_layer_that_is_gone_is_named_by_what_is_there(project):
    pytest_run(project, "--snapshot-update")
    (project / ".halo/INSTRUCTIONS.md").unlink()
    done = pytest_run(project, "-k", "helper-sub")
    assert "- Never force-push." in done.stdout
    assert "segment " in done.stdout


def test_only_what_changed_is_shown_whatever_the_lines_hold(project):
    """A form feed and a line separator end no line of a prompt."""
    write(project, {".halo/agents/helper/AGENT.md": "You\fhelp\u2028now.\n"})
    pytest_run(project, "--snapshot-update")
    write(project, {".halo/INSTRUCTIONS.md": "# Rules\n\nBe short.\nNever force-push.\n"})
    done = pytest_run(project, "-k", "helper-sub")
    shown = done.stdout.rpartition("what changed in the prompt")[2]
    assert [line for line in shown.splitlines() if line.startswith(("- ", "+ "))] == [
        "- Be brief.",
        "+ Be short.",
    ]


def test_an_agent_that_is_gone_leaves_a_snapshot_that_fails(project):
    pytest_run(project, "--snapshot-update")
    (project / ".halo/agents/default/agent.yaml").write_text(agent(name="Ada"))
    pytest_run(project, "--snapshot-update")
    for path in (project / ".halo/agents/helper").iterdir():
        path.unlink()
    (project / ".halo/agents/helper").rmdir()
    done = pytest_run(project)
    assert done.returncode == 1
    assert "unused" in done.stdout


def test_any_target_can_be_asked_for(project):
    write(
        project,
        {
            "pkg/.halo/INSTRUCTIONS.md": "Package rules.\n",
            "tests/test_prompts.py": """
            import pytest
            from halo.errors import HaloError

            def test_text(halo_prompt):
                prompt = halo_prompt("default", role="sub", directory="pkg")
                assert "Package rules." in prompt
                assert prompt.manifest.target.directory == "pkg"
                assert halo_prompt() == halo_prompt("default")
                with pytest.raises(HaloError, match="nobody"):
                    halo_prompt("nobody")
                with pytest.raises(HaloError, match="minmal"):
                    halo_prompt("default", mode="minmal")
            """,
        },
    )
    done = pytest_run(project)
    assert done.returncode == 0, done.stdout


def test_the_global_folder_is_left_out_unless_asked_for(project, tmp_path):
    (project / ".halo/USER.md").unlink()
    write(tmp_path / "home", {"global/USER.md": "Somebody of this machine.\n"})
    write(
        project,
        {
            "tests/test_prompts.py": "def test_user(halo_prompt):\n    assert 'of this machine' in halo_prompt()\n"
        },
    )
    assert pytest_run(project, home=tmp_path / "home").returncode == 1
    assert pytest_run(project, "--halo-global", home=tmp_path / "home").returncode == 0


def test_the_workspace_may_be_named(project):
    write(
        project.parent / "elsewhere",
        {"test_prompts.py": TEST, "pytest.ini": "[pytest]\nhalo_workspace = ../ws\n"},
    )
    done = pytest_run(project.parent / "elsewhere", "--snapshot-update")
    assert done.returncode == 0, done.stdout
    assert "4 snapshots generated" in done.stdout


def test_where_there_is_no_workspace_the_message_says_so(tmp_path):
    write(tmp_path / "bare", {"test_prompts.py": TEST})
    done = pytest_run(tmp_path / "bare")
    assert done.returncode != 0
    assert "no .halo/ folder" in done.stdout + done.stderr


def test_it_is_loaded_by_its_entry_point_and_costs_nothing(project):
    """Every pytest run of a user imports it, whether it tests prompts or not."""
    code = "import sys, halo.testing.plugin; sys.exit('msgspec' in sys.modules or 'yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    from importlib.metadata import entry_points

    assert any(e.value == "halo.testing.plugin" for e in entry_points(group="pytest11"))
