"""What a workspace builds by default, what it forgets, and the gates that answer a no-op."""

import os
import shutil

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import agent, skill, tree

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gatekeeper import gate_roots
from halo.build.inspection import inspect_all
from halo.build.targets import default_targets
from halo.build.whole import survey
from halo.compiler.version import COMPILER
from halo.files.tree import DiskTree
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget
from halo.workspace.directories import find_directories
from halo.workspace.locate import templates_folder

FILES = {
    ".halo/USER.md": "USER",
    ".halo/INSTRUCTIONS.md": "RULES",
    ".halo/prompts/all/one.md": "ONE",
    ".halo/prompts/root/.gitkeep": "",
    ".halo/agents/a/agent.yaml": agent(skills=["s"], team=["b"]),
    ".halo/agents/a/AGENT.md": "{{s.params.k}}",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/z/agent.yaml": agent(),
    ".halo/skills/s/SKILL.md": skill("STEPS"),
    ".halo/skills/s/notes.md": "n",
    ".halo/settings.yaml": "s: {params: {k: v}}",
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
    "pkg/code.py": "",
    "global:skills/g/SKILL.md": skill("G"),
}


def build(ws):
    """What `halo build` does: compile what is stale, forget what is gone, write the gate."""
    builder = ws.builder
    whole = survey(builder)
    for target in whole.targets:
        builder.ensure(target)
    gone = builder.prune(whole.targets)
    return gone, inspect_all(whole).write_gate()


class TestTargets:
    def test_every_agent_in_both_roles_every_skill_every_directory_with_rules(self):
        files = {
            ".halo/agents/a/agent.yaml": "",
            "global:agents/a/agent.yaml": "",
            "global:agents/g/agent.yaml": "",
            "builtin:skills/s/SKILL.md": "",
            ".halo/INSTRUCTIONS.md": "",
            "x/y/.halo/INSTRUCTIONS.md": "",
            "x/z/.halo/settings.yaml": "",
        }
        assert default_targets(tree(files)).targets == [
            AgentTarget("a"),
            AgentTarget("a", "sub"),
            AgentTarget("g"),
            AgentTarget("g", "sub"),
            ScopeTarget("x/y"),
            SkillTarget("s"),
        ]

    def test_names_that_are_no_ids_are_left_out_and_said_so(self):
        """Files among the folders are nobody's mistake."""
        files = {
            ".halo/agents/a b/agent.yaml": "",
            ".halo/agents/README.md": "",
            ".halo/agents/.x/agent.yaml": "",
        }
        found = default_targets(tree(files))
        assert found.targets == []
        assert [(d.code, d.source) for d in found.oddities] == [
            ("unusable-name", "workspace:.halo/agents")
        ] * 2
        assert "'a b'" in found.oddities[1].message

    @pytest.mark.parametrize("folder", [".git", ".venv", "node_modules", "x/__pycache__", "x/.hidden/y"])
    def test_hidden_and_dependency_folders_are_not_entered(self, folder):
        assert find_directories(tree({f"{folder}/.halo/INSTRUCTIONS.md": "", "x/f": ""})).with_rules == []

    def test_links_are_not_entered(self, make_workspace):
        """Neither twice through a link, nor round in circles."""
        ws = make_workspace({"real/.halo/INSTRUCTIONS.md": "x"})
        (ws.root / "again").symlink_to("real")
        (ws.root / "real" / "loop").symlink_to("..")
        found = find_directories(ws.places.tree())
        assert found.with_rules == ["real"]
        assert (found.closed, found.complete) == ([], True)

    def test_a_workspace_without_agents_of_its_own_has_the_packaged_ones(self, make_workspace):
        ws = make_workspace({})
        names = {t.name for t in survey(ws.builder).targets}
        assert {"default/root", "default/sub", "skills/halo"} <= names


class TestPruning:
    def test_a_removed_agent_skill_or_directory_leaves_no_pointer(self, make_workspace):
        ws = make_workspace(FILES).without_templates()
        build(ws)
        ws.write({".halo/agents/a/agent.yaml": agent()})
        for folder in (".halo/agents/b", ".halo/skills/s", "pkg"):
            shutil.rmtree(ws.path(folder))
        artifacts = ws.artifacts()
        gone, _ = build(ws)
        assert sorted(gone) == ["b/root", "b/sub", "scopes/pkg", "skills/s"]
        assert not {"b/root", "b/sub", "scopes/pkg", "skills/s"} & set(ws.pointers())
        assert artifacts.items() <= ws.artifacts().items()

    def test_targets_made_on_request_stay_while_their_agent_exists(self, make_workspace):
        ws = make_workspace(FILES).without_templates()
        build(ws)
        ws.builder.ensure(AgentTarget("b", "sub", "pkg"))
        assert build(ws)[0] == []
        assert "b/sub@pkg" in ws.pointers()
        ws.write({".halo/agents/a/agent.yaml": agent()})
        shutil.rmtree(ws.path(".halo/agents/b"))
        build(ws)
        assert "b/sub@pkg" not in ws.pointers()

    def test_what_is_left_of_an_interrupted_write_is_not_taken_for_a_pointer(self, make_workspace):
        ws = make_workspace(FILES).without_templates()
        build(ws)
        (ws.halo / "build" / "a" / ".root.json.7-ab.tmp").write_text("{")
        assert build(ws)[0] == []


def passes(ws):
    places = ws.places
    return gate.ask(gate.workspace_gate(places.workspace), gate_roots(places), COMPILER)


def _append(path):
    path.write_bytes(path.read_bytes() + b" ")


def _tear(path):
    path.write_bytes(path.read_bytes()[:-20])


def _sneak(path):
    before = path.stat()
    path.write_text("RESU")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _rename_home(ws):
    ws.home.with_name("link").symlink_to(ws.home)
    ws.home = ws.home.with_name("link")


MUTATIONS = {
    "edit": lambda ws: ws.write({".halo/USER.md": "other"}),
    "edit settings": lambda ws: ws.write({".halo/settings.yaml": "s: {params: {k: w}}"}),
    "edit a skill": lambda ws: ws.write({".halo/skills/s/SKILL.md": skill("NEW")}),
    "edit directory rules": lambda ws: ws.write({"pkg/.halo/INSTRUCTIONS.md": "NEW"}),
    "edit a global skill": lambda ws: ws.write({"global:skills/g/SKILL.md": skill("NEW")}),
    "same size, old mtime": lambda ws: _sneak(ws.path(".halo/USER.md")),
    "touch": lambda ws: os.utime(ws.path(".halo/USER.md")),
    "chmod": lambda ws: ws.path(".halo/USER.md").chmod(0o600),
    "new INDEX.md": lambda ws: ws.write({".halo/INDEX.md": "x"}),
    "new in prompts/all": lambda ws: ws.write({".halo/prompts/all/two.md": "x"}),
    "new agent": lambda ws: ws.write({".halo/agents/c/agent.yaml": agent()}),
    "new global agent": lambda ws: ws.write({"global:agents/c/agent.yaml": agent()}),
    "new skill": lambda ws: ws.write({".halo/skills/t/SKILL.md": skill("x")}),
    "new file of a skill": lambda ws: ws.write({".halo/skills/s/run.py": ""}),
    "new in a folder of a skill": lambda ws: ws.write({".halo/skills/s/x/run.py": ""}),
    "new directory rules": lambda ws: ws.write({"pkg/deep/.halo/INSTRUCTIONS.md": "x"}),
    "rules for a directory that had none": lambda ws: ws.write({"docs/.halo/INSTRUCTIONS.md": "x"}),
    "delete a layer": lambda ws: ws.path(".halo/USER.md").unlink(),
    "delete AGENT.md": lambda ws: ws.path(".halo/agents/a/AGENT.md").unlink(),
    "delete an agent": lambda ws: shutil.rmtree(ws.path(".halo/agents/z")),
    "delete a skill": lambda ws: shutil.rmtree(ws.path("global:skills/g")),
    "delete the settings": lambda ws: ws.path(".halo/settings.yaml").unlink(),
    "rename a prompt": lambda ws: ws.path(".halo/prompts/all/one.md").rename(
        ws.path(".halo/prompts/all/0.md")
    ),
    "edit an artifact": lambda ws: _append(next((ws.halo / "artifacts").rglob("prompt.md"))),
    "delete a manifest": lambda ws: next((ws.halo / "artifacts").rglob("manifest.json")).unlink(),
    "delete the artifacts": lambda ws: shutil.rmtree(ws.halo / "artifacts"),
    "delete a pointer": lambda ws: (ws.halo / "build" / "a" / "root.json").unlink(),
    "edit a pointer": lambda ws: _append(ws.halo / "build" / "skills" / "g.json"),
    "delete the gate": lambda ws: (ws.halo / "build" / "gate.txt").unlink(),
    "empty the gate": lambda ws: (ws.halo / "build" / "gate.txt").write_text(""),
    "tear the gate": lambda ws: _tear(ws.halo / "build" / "gate.txt"),
    "another HALO_HOME": lambda ws: setattr(ws, "home", ws.home.with_name("other")),
    "the same home by another name": _rename_home,
}


class TestGate:
    """The gate passes only while nothing has changed; whatever it cannot vouch for, it leaves to the pointers."""

    @pytest.fixture
    def ws(self, make_workspace):
        made = make_workspace(FILES).without_templates()
        assert build(made) == ([], True)
        assert passes(made) == str(len(survey(made.builder).targets))
        return made

    def test_it_passes_again_and_again(self, ws):
        assert [passes(ws) for _ in range(3)] == [passes(ws)] * 3

    @pytest.mark.parametrize("name", MUTATIONS)
    def test_it_does_not_pass_after(self, ws, name):
        MUTATIONS[name](ws)
        assert passes(ws) is None

    @pytest.mark.parametrize("name", list(MUTATIONS)[::3])
    def test_the_pointers_then_tell_the_truth(self, ws, name):
        """After another build the gate passes, and everything is what a new build elsewhere would give."""
        MUTATIONS[name](ws)
        build(ws)
        build(ws)  # a pointer that was renewed closes the gate for one build
        assert passes(ws)
        prompts = {t.name: ws.builder.status(t).artifact for t in survey(ws.builder).targets}
        shutil.rmtree(ws.halo / "build")
        shutil.rmtree(ws.halo / "artifacts")
        build(ws)
        assert prompts == {t.name: ws.builder.status(t).artifact for t in survey(ws.builder).targets}

    def test_another_compiler_or_other_templates(self, ws):
        path, places = gate.workspace_gate(str(ws.root)), ws.places
        roots = gate_roots(places)
        assert gate.ask(path, roots, COMPILER) is not None
        assert gate.ask(path, roots, "halo-compiler/0") is None
        for i in range(len(roots)):
            assert gate.ask(path, (*roots[:i], roots[i] + "x", *roots[i + 1 :]), COMPILER) is None

    def test_a_young_gate_compares_content_where_stamps_cannot_speak(self, make_workspace, monkeypatch):
        """Just after a build it passes, however fresh the files are; a write that keeps every stamp is seen."""
        ws = make_workspace(FILES).without_templates()
        ws.ahead_ns = 0
        assert build(ws) == ([], True)
        assert passes(ws)
        real = gate.content_digest
        changed = str(ws.halo / "USER.md")
        monkeypatch.setattr(gate, "content_digest", lambda p: "other" if p == changed else real(p))
        assert passes(ws) is None
        monkeypatch.undo()
        assert passes(ws)
        monkeypatch.setattr("time.time_ns", lambda: 1 << 62)  # old, and never settled: the pointers know more
        assert passes(ws) is None

    def test_there_is_none_until_everything_has_rested(self, make_workspace):
        """What changed within two seconds could change again with the same stamp."""
        ws = make_workspace(FILES).without_templates()
        ws.ahead_ns = -60_000_000_000  # however slow this machine is
        assert build(ws) == ([], True)
        assert passes(ws) is None  # it is not young any more

    def test_there_is_none_while_a_target_is_stale(self, ws):
        whole = survey(ws.builder)
        ws.write({".halo/USER.md": "other"})
        assert inspect_all(whole).write_gate() is False
        assert passes(ws) is None

    def test_links_are_watched_where_they_lead(self, make_workspace):
        """A link may come to lead elsewhere without a trace in the folder that holds it."""
        ws = make_workspace(FILES).without_templates()
        ws.write({"texts/x.md": "X", "README.md": "r"})
        ws.path(".halo/prompts/all/x.md").symlink_to("../../../texts/x.md")
        ws.path("CLAUDE.md").symlink_to("README.md")
        assert build(ws) == ([], True)
        assert passes(ws)
        ws.path("texts/x.md").unlink()
        ws.path("texts/x.md").mkdir()
        assert passes(ws) is None

    def test_there_is_none_where_stat_data_cannot_speak(self, make_workspace):
        """A link to nowhere has no stat data."""
        ws = make_workspace(FILES).without_templates()
        ws.path("dangling").symlink_to("nowhere")
        assert build(ws) == ([], False)

    def test_a_copied_workspace_is_not_the_original(self, make_workspace, tmp_path):
        """The gate came along, but it speaks for the folder that it was written in."""
        ws = make_workspace(FILES).without_templates()
        build(ws)
        assert passes(ws)
        copy = tmp_path / "copy"
        shutil.copytree(ws.root, copy, symlinks=True)
        places = msgspec.structs.replace(ws.places, workspace=str(copy))
        assert gate.ask(gate.workspace_gate(str(copy)), gate_roots(places), COMPILER) is None
        changed = copy / ".halo" / "agents" / "a" / "AGENT.md"
        changed.write_text("Changed.\n")
        artifact = Builder(places, ws.now_ns).ensure(AgentTarget("a"))
        assert "Changed." in artifact.prompt

    def test_a_change_between_the_build_and_the_gate_closes_it(self, make_workspace):
        ws = make_workspace(FILES).without_templates()
        build(ws)
        whole = survey(ws.builder)
        ws.write({".halo/agents/c/agent.yaml": agent()})
        inspect_all(whole).write_gate()
        assert passes(ws) is None

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def test_a_gate_with_any_byte_changed_or_cut_never_answers_wrongly(self, ws, data):
        """It passes with the right answer, or not at all."""
        path = ws.halo / "build" / "gate.txt"
        whole = path.read_bytes()
        right = passes(ws)
        assert right
        at = data.draw(st.integers(0, len(whole) - 1))
        cut = data.draw(st.booleans())
        header = whole.index(b"\n")
        path.write_bytes(whole[:at] if cut else whole[:at] + b"\xff" + whole[at + 1 :])
        assert passes(ws) in (None, right) or at < header
        path.write_bytes(whole)


class TestTargetGates:
    """Beside each pointer that was asked for lies a gate, so that `halo prompt` needs no library."""

    def ask(self, ws, name="a/root"):
        places = ws.places
        return gate.ask(gate.target_gate(places.workspace, name), gate_roots(places), COMPILER)

    @pytest.fixture
    def ws(self, make_workspace):
        made = make_workspace(FILES).without_templates()
        made.builder.ensure(AgentTarget("a"))
        return made

    def test_it_opens_when_the_target_is_compiled(self, make_workspace):
        """The very next prompt passes; so do all others, for content is compared at any age."""
        ws = make_workspace(FILES).without_templates()
        ws.write({".halo/settings.yaml": "s: {params: {k: v}}"})
        ws.ahead_ns = 0
        artifact = ws.builder.ensure(AgentTarget("a"))
        path, roots = gate.target_gate(str(ws.root), "a/root"), gate_roots(ws.places)
        assert gate.ask(path, roots, COMPILER, any_age=True) == artifact.id
        ws.builder.ensure(SkillTarget("s"))
        assert not os.path.exists(gate.target_gate(str(ws.root), "skills/s"))  # nobody asks for it

    def test_an_old_gate_still_sees_a_write_that_keeps_every_stamp(self, make_workspace, monkeypatch):
        ws = make_workspace(FILES).without_templates()
        ws.ahead_ns = 0
        artifact = ws.builder.ensure(AgentTarget("a"))
        path, roots = gate.target_gate(str(ws.root), "a/root"), gate_roots(ws.places)
        monkeypatch.setattr("time.time_ns", lambda: 1 << 62)
        assert gate.ask(path, roots, COMPILER, any_age=True) == artifact.id
        assert gate.ask(path, roots, COMPILER) is None
        real, changed = gate.content_digest, str(ws.halo / "USER.md")
        monkeypatch.setattr(gate, "content_digest", lambda p: "other" if p == changed else real(p))
        assert gate.ask(path, roots, COMPILER, any_age=True) is None

    @pytest.mark.parametrize("path", [".halo/USER.md", ".halo/settings.yaml", ".halo/prompts/all/new.md"])
    def test_it_closes_when_an_input_changes(self, ws, path):
        ws.builder.ensure(AgentTarget("a"))
        ws.write({path: "s: {params: {k: w}}"})
        assert self.ask(ws) is None

    def test_it_closes_when_the_artifact_changes(self, ws):
        artifact = ws.builder.ensure(AgentTarget("a"))
        _append(ws.halo / "artifacts" / artifact.id / "prompt.md")
        assert self.ask(ws) is None

    def test_an_artifact_with_remarks_stays_closed(self, ws):
        """They are to be seen each time."""
        ws.write({".halo/agents/a/AGENT.md": "{{nothing}}"})
        for _ in range(3):
            ws.builder.ensure(AgentTarget("a"))
        assert self.ask(ws) is None

    def test_it_goes_with_its_agent(self, ws):
        build(ws)
        build(ws)
        path = gate.target_gate(str(ws.root), "b/root")
        assert os.path.exists(path)
        ws.write({".halo/agents/a/agent.yaml": agent()})
        shutil.rmtree(ws.path(".halo/agents/b"))
        build(ws)
        assert not os.path.exists(path)


def test_the_templates_compile_on_their_own(tmp_path):
    """A user without any file of their own gets prompts without a remark."""
    packaged = DiskTree({"workspace": str(tmp_path), "builtin": templates_folder()})
    from halo.compiler.compile import compile_target

    for target in default_targets(packaged).targets:
        remarks = compile_target(packaged, target).manifest.diagnostics
        assert [d for d in remarks if d.severity != "info"] == [], target


def test_a_manifest_is_read_back_as_it_was_written(make_workspace):
    ws = make_workspace(FILES).without_templates()
    build(ws)
    for target in survey(ws.builder).targets:
        artifact = ws.builder.status(target).artifact
        again = ws.builder.store.load(artifact.id)
        assert msgspec.structs.asdict(again) == msgspec.structs.asdict(artifact)
