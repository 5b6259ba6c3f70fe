"""`halo prompt --mode --platform --access`: other prompts of the same agent, as a user asks for them."""

import pytest
from making import agent

FILES = {
    ".halo/USER.md": "USER",
    ".halo/agents/a/agent.yaml": agent(name="Ada", tools=["file_read", "file_write", "shell_exec"]),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/prompts/all/a.md": "ON-POSIX",
    ".halo/prompts/all/a.windows.md": "ON-WINDOWS",
    ".halo/settings.yaml": "general: {prompt: {sections: [sandbox, runtime], time_zone: local}}\n",
}


@pytest.fixture
def ws(make_workspace):
    return make_workspace(FILES)


def asked(ws, *options, **environ):
    done = ws.cli("prompt", "-a", "a", *options, **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_usual_prompt_first_does_not_answer_for_the_others(ws):
    """The gate of the usual target is open after the first call, and is not asked for another one."""
    usual = [asked(ws) for _ in range(3)]
    assert len(set(usual)) == 1
    assert asked(ws, "--mode", "none") == "You are Ada, an agent of this workspace.\n"
    assert "ON-WINDOWS" in asked(ws, "--platform", "windows")
    assert "access level is `readonly`" in asked(ws, "--access", "readonly")
    assert asked(ws) == usual[0]


def test_the_defaults_may_be_said(ws):
    assert asked(ws, "--mode", "full", "--platform", "posix", "--access", "full") == asked(ws)


def test_they_may_be_combined(ws):
    text = asked(ws, "--mode", "minimal", "--platform", "windows", "--access", "workspace", "--role", "sub")
    assert text.startswith("BODY\n\nON-WINDOWS\n\n## Sandbox\n\n")
    assert "a/sub+minimal+windows+workspace" in ws.pointers()


@pytest.mark.parametrize("option", ["--mode", "--platform", "--access"])
def test_another_word_is_the_users_mistake(ws, option):
    done = ws.cli("prompt", "-a", "a", option, "nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nonsense" in done.stderr


class TestFilled:
    def test_the_zone_is_that_of_the_machine(self, ws):
        assert "\nTime zone: Europe/Oslo\n" in asked(ws, "--fill", TZ="Europe/Oslo")

    def test_or_the_one_that_the_users_own_settings_name(self, ws):
        ws.write({"secrets:settings.yaml": "general: {prompt: {time_zone: Asia/Tokyo}}\n"})
        assert "\nTime zone: Asia/Tokyo\n" in asked(ws, "--fill", TZ="Europe/Oslo")

    def test_the_runtime_names_system_and_versions_and_nobody(self, ws):
        text = asked(ws, "--fill", USER="mara-q7", LOGNAME="mara-q7")
        (line,) = (line for line in text.splitlines() if line.startswith("Runtime: "))
        import platform

        from halo import __version__

        assert line == (
            f"Runtime: agent a, model openai/m, {platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}, Halo {__version__}"
        )
        assert platform.node() not in line
        assert "q7" not in line
