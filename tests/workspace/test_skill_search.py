"""Where skills are searched: in `.halo/`, and in folders of other programs when the settings say so.

Project before user, the settings' order within each, templates last; what is shadowed is said.
"""

import re
import shutil

import msgspec
import pytest
from making import agent, compiled, prompt, skill, tree

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gatekeeper import gate_roots
from halo.build.inspection import inspect_all
from halo.build.targets import default_targets
from halo.build.whole import survey
from halo.compiler.version import COMPILER
from halo.errors import LayerError, TreeError, UnknownNameError
from halo.files.roots import ConfinedRoot
from halo.files.tree import OverlayTree
from halo.records.targets import AgentTarget, SkillTarget
from halo.sessions.desk import Desk, _skill_roots, equip
from halo.tools.base import Surroundings
from halo.tools.paths import locate, read_bytes
from halo.workspace.ids import list_ids, serving_folder
from halo.workspace.places import find_places
from halo.workspace.settings.params import read_params
from halo.workspace.skills.reading import read_skill

BOTH = {".halo/settings.yaml": "general: {skills: {search: [.agents/skills, .claude/skills]}}\n"}

# Every place where a skill may lie, the first to serve first, with its scope.
ORDER = [
    (".halo/skills/s", "workspace"),
    (".agents/skills/s", "workspace"),
    (".claude/skills/s", "workspace"),
    ("global:skills/s", "global"),
    ("agents-skills:s", "global"),
    ("claude-skills:s", "global"),
    ("builtin:skills/s", "builtin"),
]


def everywhere(start=0):
    return {f"{folder}/SKILL.md": skill(f"FROM-{i}") for i, (folder, _) in enumerate(ORDER) if i >= start}


def shadowed(files, name="s"):
    """What the skill's manifest says of shadowed folders."""
    found = compiled(files, SkillTarget(name)).manifest.diagnostics
    return [re.match(r"(\S+) is not used", d.message)[1] for d in found if d.code == "skill-shadowed"]


class TestOrder:
    @pytest.mark.parametrize("first", range(len(ORDER)))
    def test_project_before_user_before_templates(self, first):
        files = {**BOTH, **everywhere(first)}
        folder, scope = ORDER[first]
        served = serving_folder(tree(files), "skills", "s")
        assert served.folder in (folder, f"workspace:{folder}")
        assert served.scope == scope
        assert len(served.hides) == len(ORDER) - first - 1
        assert prompt(files, SkillTarget("s")) == f"# Skill: s\n\nFROM-{first}\n"

    def test_the_order_within_a_scope_is_that_of_the_settings(self):
        turned = {".halo/settings.yaml": "general: {skills: {search: [.claude/skills, .agents/skills]}}\n"}
        files = {
            **turned,
            ".agents/skills/s/SKILL.md": skill("AGENTS"),
            ".claude/skills/s/SKILL.md": skill("CLAUDE"),
        }
        assert "CLAUDE" in prompt(files, SkillTarget("s"))
        files = {
            **turned,
            "agents-skills:s/SKILL.md": skill("AGENTS"),
            "claude-skills:s/SKILL.md": skill("CLAUDE"),
        }
        assert "CLAUDE" in prompt(files, SkillTarget("s"))

    def test_nothing_of_others_is_looked_at_unless_asked_for(self):
        files = everywhere()
        for folder, _ in ORDER:
            if folder.startswith((".agents", ".claude", "agents-", "claude-")):
                with pytest.raises(UnknownNameError):
                    read_skill(tree({f"{folder}/SKILL.md": skill("x")}), "s")
        assert serving_folder(tree(files), "skills", "s").hides == ("global:skills/s", "builtin:skills/s")

    def test_the_machine_s_settings_may_ask_and_the_workspace_s_decide(self):
        files = {
            ".claude/skills/s/SKILL.md": skill("x"),
            "secrets:settings.yaml": BOTH[".halo/settings.yaml"],
        }
        assert list_ids(tree(files), "skills") == ["s"]
        files[".halo/settings.yaml"] = "general: {skills: {search: []}}\n"
        assert list_ids(tree(files), "skills") == []

    def test_only_the_two_known_folders(self):
        files = {".halo/settings.yaml": "general:\n  skills:\n    search: [../elsewhere]\n"}
        with pytest.raises(LayerError) as caught:
            list_ids(tree(files), "skills")
        assert (caught.value.file, caught.value.line) == ("workspace:.halo/settings.yaml", 3)

    def test_agents_do_not_come_from_there(self):
        assert list_ids(tree({**BOTH, ".claude/agents/a/agent.yaml": agent()}), "agents") == []


class TestUse:
    FILES = {  # noqa: RUF012
        **BOTH,
        ".halo/agents/a/agent.yaml": agent(skills=["pdf", "xls"]),
        ".claude/skills/pdf/SKILL.md": skill("PDF", name="PDF", description="reads"),
        ".claude/skills/pdf/ref/a.md": "",
        "claude-skills:xls/SKILL.md": skill("XLS", description="counts"),
        "claude-skills:xls/run.py": "",
    }

    def test_agents_list_them_like_others(self):
        made = compiled(self.FILES)
        assert [(s.id, s.scope) for s in made.manifest.skills] == [("pdf", "workspace"), ("xls", "global")]
        assert "<name>PDF</name>" in made.prompt

    def test_a_build_makes_them(self):
        targets = default_targets(tree(self.FILES)).targets
        assert [t.name for t in targets if isinstance(t, SkillTarget)] == ["skills/pdf", "skills/xls"]

    def test_their_files_have_addresses(self):
        assert prompt(self.FILES, SkillTarget("pdf")).endswith("\n- .claude/skills/pdf/ref/a.md\n")
        assert prompt(self.FILES, SkillTarget("xls")).endswith("\n- skill:xls/run.py\n")

    def test_a_near_miss_knows_them(self):
        files = {**self.FILES, ".halo/agents/a/agent.yaml": agent(skills=["pfd"])}
        with pytest.raises(LayerError, match="unknown skill 'pfd'") as caught:
            prompt(files)
        assert caught.value.hint == "did you mean 'pdf'?"

    def test_their_parameters_count(self):
        files = {
            **self.FILES,
            "claude-skills:xls/config.yaml": "params: [{key: k, default: v}]\nsecrets: [{key: s}]\n",
        }
        params = read_params(tree(files), "xls")
        assert (set(params.declared), params.is_secret("s")) == ({"k"}, True)

    def test_a_folder_without_a_skill_is_nobody_s_mistake(self):
        """Other programs keep other things there: it hides nothing, and nothing is said."""
        files = {
            **BOTH,
            ".claude/skills/s/notes.md": "",
            ".claude/skills/my notes/x.md": "",
            ".claude/skills/README.md": "",
            "global:skills/s/SKILL.md": skill("GLOBAL"),
        }
        assert prompt(files, SkillTarget("s")) == "# Skill: s\n\nGLOBAL\n"
        assert shadowed(files) == []
        assert default_targets(tree(files)).oddities == ()

    def test_a_skill_whose_folder_has_no_usable_name_is_said(self):
        files = {
            **BOTH,
            ".claude/skills/my skill/SKILL.md": skill("x"),
            ".agents/skills/ok/Skill.md": skill("x"),
        }
        survey = default_targets(tree(files))
        assert survey.targets == [SkillTarget("ok")]
        assert [(d.code, d.source) for d in survey.oddities] == [
            ("unusable-name", "workspace:.claude/skills")
        ]


class TestShadowing:
    def test_what_a_folder_of_others_shadows_or_is_shadowed_in(self):
        """Each hidden folder once, in the manifest of the skill."""
        files = {**BOTH, **everywhere()}
        assert shadowed(files) == [
            "workspace:.agents/skills/s",
            "workspace:.claude/skills/s",
            "agents-skills:s",
            "claude-skills:s",
        ]
        assert len(shadowed({**BOTH, **everywhere(2)})) == 4

    def test_an_override_by_the_workspace_is_meant(self):
        assert (
            shadowed({**BOTH, ".halo/skills/s/SKILL.md": skill("x"), "global:skills/s/SKILL.md": skill("y")})
            == []
        )

    def test_the_same_text_for_another_program_is_no_shadow(self):
        same = {f"{folder}/s/SKILL.md": skill("x") for folder in (".agents/skills", ".claude/skills")}
        assert shadowed({**BOTH, **same}) == []

    def test_agents_are_not_told(self):
        files = {**BOTH, **everywhere(), ".halo/agents/a/agent.yaml": agent(skills=["s"])}
        assert [d for d in compiled(files).manifest.diagnostics if d.code.startswith("skill-")] == []


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            **BOTH,
            ".halo/agents/a/agent.yaml": agent(skills=["own", "users"]),
            ".claude/skills/own/SKILL.md": skill("OWN", description="o"),
        }
    )


@pytest.fixture
def shelf(ws):
    """`~/.claude/skills` with the skill `users`."""
    folder = ws.home.parent / ".claude" / "skills"
    (folder / "users" / "ref").mkdir(parents=True)
    (folder / "users" / "SKILL.md").write_text(skill("USERS", description="u"))
    (folder / "users" / "ref" / "a.md").write_text("far\n")
    return folder


class TestOnDisk:
    def test_the_home_is_that_of_the_environment(self, ws, shelf):
        places = find_places(str(ws.root), {"HOME": str(ws.home.parent), "HALO_HOME": str(ws.home)})
        assert "USERS" in places.tree().read("claude-skills:users/SKILL.md").decode()
        assert read_skill(places.tree(), "users").scope == "global"

    def test_of_the_home_nothing_but_skills_can_be_read(self, ws, shelf):
        """A skill that was installed from elsewhere cannot bring keys into a prompt by a link."""
        (shelf.parent / "credentials.json").write_text("secret")
        (shelf / "thief").mkdir()
        (shelf / "thief" / "SKILL.md").symlink_to("../../credentials.json")
        assert not any("credentials" in path for path in ws.places.roots.values())
        with pytest.raises(TreeError):
            ws.builder.ensure(SkillTarget("thief"))
        oddities = default_targets(ws.places.tree()).oddities
        assert [(d.code, d.source) for d in oddities] == [("skill-skipped", "claude-skills:thief/SKILL.md")]

    def test_links_that_leave_are_refused_one_by_one(self, ws, shelf):
        (shelf / "out").symlink_to("/etc")
        ws.path(".claude/skills/out").symlink_to("/etc")
        ws.path("shared/in").mkdir(parents=True)
        ws.write({"shared/in/SKILL.md": skill("IN", description="i")})
        ws.path(".claude/skills/in").symlink_to("../../shared/in")
        whole = survey(ws.without_templates().builder)
        assert [t.name for t in whole.targets if isinstance(t, SkillTarget)] == [
            "skills/in",
            "skills/own",
            "skills/users",
        ]
        assert [(d.code, d.source) for d in whole.oddities] == [
            ("skill-skipped", "workspace:.claude/skills/out"),
            ("skill-skipped", "claude-skills:out"),
        ]
        assert "IN" in ws.builder.ensure(SkillTarget("in")).prompt

    def test_a_list_says_where_they_come_from_and_which_are_broken(self, ws, shelf):
        ws.write({"global:skills/gone/SKILL.md": skill("x", description="g"), ".halo/skills/y/x": ""})
        ws.path(".halo/skills/gone").symlink_to("/etc")
        listed = ws.cli("skill", "list")
        assert listed.returncode == 0, listed.stderr
        rows = {line.split()[0]: line for line in listed.stdout.splitlines() if line.strip()}
        assert "workspace" in rows["own"]
        assert "global" in rows["users"]
        assert "broken" in rows["gone"]
        assert "a link that leads out" in rows["gone"]

    def test_a_whole_folder_that_leads_out_is_passed_over_and_said(self, ws, shelf):
        shutil.move(ws.path(".claude/skills"), ws.home.parent / "moved")
        ws.path(".claude/skills").symlink_to(ws.home.parent / "moved")
        whole = survey(ws.without_templates().builder)
        assert [(d.code, d.source) for d in whole.oddities] == [("skill-skipped", "workspace:.claude/skills")]
        assert SkillTarget("users") in whole.targets
        with pytest.raises(LayerError, match="unknown skill 'own'"):
            ws.builder.ensure(AgentTarget("a"))

    def test_a_link_of_one_program_to_the_folder_of_the_other(self, ws, shelf):
        ws.path(".agents").mkdir()
        ws.path(".agents/skills").symlink_to("../.claude/skills")
        made = ws.builder.ensure(SkillTarget("own"))
        assert (made.manifest.diagnostics, "OWN" in made.prompt) == ((), True)

    def test_artifacts_hold_no_path_of_the_machine(self, ws, shelf):
        ws.builder.ensure(AgentTarget("a"))
        ws.builder.ensure(SkillTarget("users"))
        for data in (*ws.artifacts().values(), *ws.pointers().values()):
            assert str(ws.home.parent).encode() not in data
        assert b"claude-skills:users/SKILL.md" in b"".join(ws.artifacts().values())

    def equipped(self, ws):
        desk = Desk(ws.builder, ws.environ(), str(ws.home / "cache"), ws.now_ns)
        return desk, equip(desk, AgentTarget("a"), (), frozen=False, waited=frozenset())[0]

    def test_tools_read_the_files_of_a_skill_in_the_home(self, ws, shelf):
        roots = _skill_roots(*self.equipped(ws))
        assert list(roots) == ["users"]
        around = Surroundings(ConfinedRoot(str(ws.root)), roots, lambda *_: None)
        assert read_bytes(locate("skill:users/ref/a.md", around), 100) == b"far\n"
        assert b"OWN" in read_bytes(locate(".claude/skills/own/SKILL.md", around), 1000)

    @pytest.mark.parametrize(
        "source",
        [
            "secrets:settings.yaml",
            "global:SKILL.md",
            "claude-skills:SKILL.md",
            "claude-skills:users/../x/SKILL.md",
            "workspace:SKILL.md",
        ],
    )
    def test_a_manifest_cannot_open_another_folder(self, ws, shelf, source):
        """A build folder may come from a stranger."""
        desk, equipment = self.equipped(ws)
        body = equipment.skills["users"]
        segment = msgspec.structs.replace(body.manifest.segments[0], source=source)
        manifest = msgspec.structs.replace(body.manifest, segments=(segment,))
        forged = {**equipment.skills, "users": msgspec.structs.replace(body, manifest=manifest)}
        assert _skill_roots(desk, msgspec.structs.replace(equipment, skills=forged)) == {}


def build(ws):
    builder = ws.builder
    whole = survey(builder)
    for target in whole.targets:
        builder.ensure(target)
    builder.prune(whole.targets)
    return inspect_all(whole).write_gate()


def passes(ws):
    return gate.ask(gate.workspace_gate(str(ws.root)), gate_roots(ws.places), COMPILER)


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CHANGES = {
    "edit a skill": lambda ws, shelf: _write(shelf / "users" / "SKILL.md", skill("NEW", description="u")),
    "a new file of a skill": lambda ws, shelf: _write(shelf / "users" / "new.md", ""),
    "a new skill": lambda ws, shelf: _write(shelf / "more" / "SKILL.md", skill("x", description="d")),
    "a new skill on an empty shelf": lambda ws, shelf: _write(
        shelf.parent.parent / ".agents" / "skills" / "more" / "SKILL.md", skill("x", description="d")
    ),
    "a skill of the workspace that shadows it": lambda ws, shelf: ws.write(
        {".agents/skills/users/SKILL.md": skill("MINE", description="d")}
    ),
    "a global skill that shadows it": lambda ws, shelf: ws.write(
        {"global:skills/users/SKILL.md": skill("MINE", description="d")}
    ),
    "another folder in the settings": lambda ws, shelf: ws.write(
        {".halo/settings.yaml": "general: {skills: {search: [.claude/skills]}}\n"}
    ),
}


class TestGates:
    """Neither the gate nor the pointers overlook a change in a folder outside `.halo/`."""

    @pytest.fixture
    def built(self, ws, shelf):
        ws.without_templates().write({".halo/prompts/all/x.md": "x", ".halo/prompts/root/x.md": "x"})
        ws.write({".halo/USER.md": "x"})
        build(ws)
        assert build(ws)
        assert passes(ws)
        return ws

    @pytest.mark.parametrize("name", CHANGES)
    def test_changes_are_noticed(self, built, shelf, name):
        CHANGES[name](built, shelf)
        assert passes(built) is None
        build(built)
        prompts = {t.name: built.builder.ensure(t).prompt for t in survey(built.builder).targets}
        shutil.rmtree(built.halo / "build")
        assert prompts == {t.name: built.builder.ensure(t).prompt for t in survey(built.builder).targets}

    def test_another_home_is_noticed(self, built, shelf):
        other = msgspec.structs.replace(built.places, user=str(built.root.parent / "nobody"))
        assert gate.ask(gate.workspace_gate(str(built.root)), gate_roots(other), COMPILER) is None
        assert Builder(other, built.now_ns).status(AgentTarget("a")).reason.startswith("claude-skills:")

    def test_a_command_sees_the_home_of_its_environment(self, built, shelf):
        first = built.cli("build")
        assert first.returncode == 0, first.stderr
        assert "all fresh" in built.cli("build").stdout
        elsewhere = built.root.parent / "elsewhere"
        elsewhere.mkdir()
        moved = built.cli("build", HOME=str(elsewhere))
        assert moved.returncode == 1
        assert "unknown skill 'users'" in moved.stdout + moved.stderr


def test_an_overlay_may_bring_one(ws):
    """What reads through the tree needs no disk."""
    source = OverlayTree(ws.places.tree(), {"claude-skills:users/SKILL.md": skill("DRAFT").encode()})
    assert read_skill(source, "users").folder == "claude-skills:users"
