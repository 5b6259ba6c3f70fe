"""`halo build`, `halo prompt` and `doit` in a workspace, as a user runs them."""

import pytest
from making import agent, skill

FILES = {
    "dodo.py": "from halo.dodo import *\n",
    ".halo/USER.md": "USER",
    ".halo/agents/a/agent.yaml": agent(name="Ada"),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/b/agent.yaml": agent(name="Bob"),
    ".halo/skills/s/SKILL.md": skill("STEPS"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}
BROKEN = "model: {provider: openai, id: m}\nnmae: x\n"


@pytest.fixture
def ws(make_workspace):
    return make_workspace(FILES)


def built(result):
    """The targets of the workspace's own that a run says it compiled."""
    lines = [line.split() for line in result.stderr.splitlines() if line.startswith("built ")]
    return sorted(words[1] for words in lines if not _packaged(words[1]))


def _packaged(name):
    return name.split("/")[0] in ("default", "worker", "reviewer") or name in (
        "skills/halo",
        "skills/agent",
        "skills/skill",
    )


OWN = ["a/root", "a/sub", "b/root", "b/sub", "scopes/pkg", "skills/s"]


class TestBuild:
    def test_builds_what_is_stale_and_then_nothing(self, ws):
        first = ws.cli("build")
        assert (first.returncode, built(first)) == (0, OWN)
        second = ws.cli("build")
        assert (second.returncode, second.stderr) == (0, "")
        assert second.stdout == f"{len(ws.pointers())} targets: all fresh\n"
        ws.write({".halo/skills/s/SKILL.md": skill("OTHER")})
        third = ws.cli("build")
        assert (third.returncode, built(third)) == (0, ["skills/s"])

    def test_one_broken_agent_is_told_and_the_rest_goes_on(self, ws):
        ws.cli("build")
        before = ws.pointers()["a/root"]
        ws.write({".halo/agents/a/agent.yaml": BROKEN, ".halo/agents/b/agent.yaml": agent(name="Bea")})
        for _ in range(2):  # it fails as long as it is broken
            result = ws.cli("build")
            assert result.returncode == 1
            assert (
                "failed  a/root\nworkspace:.halo/agents/a/agent.yaml:2: unknown key 'nmae'\n  did you mean 'name'?"
                in result.stderr
            )
            assert "2 failed" in result.stdout
            assert "Traceback" not in result.stderr
        assert b"Bea" in b"".join(ws.artifacts().values())
        assert ws.pointers()["a/root"] != before
        assert b'"stale": "workspace:.halo/agents/a/agent.yaml:2: ' in ws.pointers()["a/root"]
        ws.write({".halo/agents/a/agent.yaml": FILES[".halo/agents/a/agent.yaml"]})
        assert ws.cli("build").returncode == 0

    def test_a_removed_agent_is_said_to_be_gone(self, ws):
        ws.cli("build")
        for path in (ws.halo / "agents" / "b").iterdir():
            path.unlink()
        (ws.halo / "agents" / "b").rmdir()
        result = ws.cli("build")
        assert "gone    b/root\n" in result.stderr
        assert not {"b/root", "b/sub"} & set(ws.pointers())

    def test_outside_a_workspace_it_is_the_users_mistake(self, ws):
        result = ws.cli("build", "-w", str(ws.home.parent))
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("halo: no .halo/ folder in ")

    @pytest.mark.parametrize("arguments", [("--nonsense",), ("-n", "0"), ("extra",)])
    def test_so_is_a_wrong_option(self, ws, arguments):
        assert ws.cli("build", *arguments).returncode == 2

    def test_prompt_prints_the_fresh_text_and_nothing_else(self, ws):
        result = ws.cli("prompt", "-a", "a", "--role", "sub", "--dir", "pkg")
        assert result.returncode == 0
        assert result.stdout.startswith("BODY\n\n---\n\n## User Instructions\n\n### pkg\n\nPKG\n\n")
        assert result.stdout.endswith("\nWorking directory: {{working_dir}}\n")


class TestDoit:
    def test_it_compiles_what_is_stale_and_nothing_when_fresh(self, ws):
        first = ws.doit()
        assert (first.returncode, built(first), first.stdout) == (0, OWN, "")
        second = ws.doit()
        assert (second.returncode, second.stderr, second.stdout) == (0, "", "")
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "NEW"})
        assert built(ws.doit()) == ["scopes/pkg"]

    def test_its_database_holds_nothing_of_value(self, ws):
        """Torn, empty, binary or gone: nothing is built again for it, and nothing is missed."""
        ws.doit()
        database = ws.halo / "build" / "doit.json"
        data = database.read_bytes()
        for damaged in (data[: len(data) // 2], b"", b"\xff\x00", None):
            if damaged is None:
                database.unlink()
            else:
                database.write_bytes(damaged)
            result = ws.doit()
            assert (result.returncode, result.stderr) == (0, "")
        database.write_bytes(b"{")
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "NEW"})
        assert built(ws.doit()) == ["scopes/pkg"]

    def test_what_halo_build_made_is_fresh_to_doit_and_the_other_way_round(self, ws):
        ws.cli("build")
        assert ws.doit().stderr == ""
        ws.write({".halo/skills/s/SKILL.md": skill("OTHER")})
        assert built(ws.doit()) == ["skills/s"]
        assert ws.cli("build").stderr == ""

    def test_a_broken_agent_fails_and_the_rest_goes_on(self, ws):
        ws.write({".halo/agents/a/agent.yaml": BROKEN})
        result = ws.doit()
        assert result.returncode == 1
        assert built(result) == ["b/root", "b/sub", "scopes/pkg", "skills/s"]
        assert result.stderr.count("workspace:.halo/agents/a/agent.yaml:2: unknown key 'nmae'") == 1
        assert result.stderr.count("failed ") == 2
        assert "Traceback" not in result.stderr

    def test_an_artifact_changed_by_hand_is_built_anew(self, ws):
        """doit alone looks at existence only."""
        ws.doit()
        before = ws.artifacts()
        for path in (ws.halo / "artifacts").glob("*/prompt.md"):
            path.write_text("tampered")
        assert ws.doit().returncode == 0
        assert ws.artifacts() == before

    def test_list_shows_every_target(self, ws):
        result = ws.doit("list", "--all", "-q")
        assert result.returncode == 0
        names = {line.strip() for line in result.stdout.splitlines()}
        assert {f"build:{name}" for name in OWN} | {"build", "prompt"} <= names

    def test_one_target_by_name(self, ws):
        result = ws.doit("build:a/sub")
        assert (result.returncode, built(result)) == (0, ["a/sub"])

    def test_clean_forgets_what_was_built(self, ws):
        """Pointers go, artifacts stay, and the next run makes them again."""
        ws.doit()
        before, artifacts = set(ws.pointers()), ws.artifacts()
        assert ws.doit("clean").returncode == 0
        assert ws.pointers() == {}
        result = ws.doit()
        assert (result.returncode, built(result)) == (0, OWN)
        assert (set(ws.pointers()), ws.artifacts()) == (before, artifacts)

    def test_prompt_prints_the_text(self, ws):
        result = ws.doit("prompt", "-a", "a")
        assert (result.returncode, result.stdout) == (0, ws.cli("prompt", "-a", "a").stdout)
        assert result.stdout.startswith("## User Profile\n\nUSER\n\n---\n\nBODY\n\n")

    def test_prompt_has_the_options_of_halo_prompt(self, ws):
        """The same names, defaults and choices; doit knows no workspace but that of its dodo.py."""
        from halo.cli.prompt import command
        from halo.dodo import task_prompt

        def options(param):
            choices = getattr(param.type, "choices", ())
            default = param.default if isinstance(param.default, str) else ""
            return param.name, param.opts[-1], default, tuple(choices), param.is_flag

        theirs = {options(param) for param in command.params if param.name != "workspace"}
        assert theirs == {
            (
                p["name"],
                f"--{p['long']}",
                p["default"] or "",
                tuple(c for c, _ in p.get("choices", ())),
                "type" in p,
            )
            for p in task_prompt()["params"]
        }
        words = ("prompt", "-a", "a", "--mode", "minimal", "--platform", "windows", "--layers")
        result = ws.doit(*words)
        assert (result.returncode, result.stdout) == (0, ws.cli(*words).stdout)
        result = ws.doit("prompt", "--layers", "--fill")
        assert result.returncode == 1
        assert "leave --fill away" in result.stderr
        assert "Traceback" not in result.stderr

    def test_an_unknown_agent_is_answered_with_near_misses(self, ws):
        result = ws.doit("prompt", "-a", "workr")
        assert result.returncode != 0
        assert "did you mean 'worker'?" in result.stderr
        assert "Traceback" not in result.stderr
