"""Freshness has one authority: the inputs in a target's pointer (docs/explanation/artifacts.md)."""

import os

import msgspec
import pytest
from making import agent, skill

from halo.build.freshness import Verdict, check_inputs
from halo.compiler.version import COMPILER
from halo.errors import ArtifactError, LayerError, UnknownNameError
from halo.files.canonical import readable_json
from halo.files.stamps import RACY_NS, Stamp
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget

TARGET = AgentTarget("a")
FILES = {
    ".halo/USER.md": "USER",
    ".halo/prompts/all/one.md": "ONE",
    ".halo/agents/a/agent.yaml": agent(name="Ada", skills=["s"], team=["b"]),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/skills/s/SKILL.md": skill("STEPS", description="adds"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}


@pytest.fixture
def ws(make_workspace):
    """A workspace in which the agent `a` is fresh."""
    made = make_workspace(FILES)
    made.builder.ensure(TARGET)
    assert reason(made) == ""
    return made


def reason(ws, target=TARGET):
    """Why the target is not fresh; empty when it is."""
    status = ws.builder.status(target)
    assert (status.artifact is None) == bool(status.reason)
    return status.reason


def pointer(ws, target=TARGET):
    return ws.builder.pointers.read(target)


def verdict(ws):
    return check_inputs(pointer(ws), ws.places.roots, ws.now_ns())


def test_what_was_never_built_is_not_fresh(make_workspace):
    assert reason(make_workspace(FILES)) == "it was not built yet"


def test_a_fresh_target_is_not_compiled_again(ws, monkeypatch):
    def never(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr("halo.compiler.compile.compile_target", never)
    assert ws.builder.ensure(TARGET).prompt.startswith("## User Profile\n\nUSER")


CHANGES = [
    (".halo/USER.md", "workspace:.halo/USER.md changed"),
    (".halo/prompts/all/one.md", "workspace:.halo/prompts/all/one.md changed"),
    (".halo/agents/a/AGENT.md", "workspace:.halo/agents/a/AGENT.md changed"),
    (".halo/agents/b/agent.yaml", "workspace:.halo/agents/b/agent.yaml changed"),
    (".halo/INDEX.md", "workspace:.halo/INDEX.md is new"),
    (".halo/INSTRUCTIONS.md", "workspace:.halo/INSTRUCTIONS.md is new"),
    (".halo/prompts/all/two.md", "workspace:.halo/prompts/all changed"),
    (".halo/prompts/root/lead.md", "workspace:.halo/prompts/root is new"),
]


class TestWhatIsNoticed:
    @pytest.mark.parametrize(("path", "expected"), CHANGES)
    def test_an_edit_or_a_new_file(self, ws, path, expected):
        """Absence is an input too, and so is what a folder holds."""
        ws.write({path: agent(description="new")})
        assert reason(ws) == expected
        ws.builder.ensure(TARGET)
        assert reason(ws) == ""

    @pytest.mark.parametrize("path", ["global:INSTRUCTIONS.md", "global:prompts/root/x.md"])
    def test_a_new_global_file(self, ws, path):
        ws.write({path: "NEW"})
        assert reason(ws)
        assert "NEW" in ws.builder.ensure(TARGET).prompt

    def test_a_deleted_file(self, ws):
        ws.path(".halo/USER.md").unlink()
        assert reason(ws) == "workspace:.halo/USER.md is gone"
        assert "User Profile" not in ws.builder.ensure(TARGET).prompt

    def test_a_deleted_file_in_a_folder(self, ws):
        ws.path(".halo/prompts/all/one.md").unlink()
        assert reason(ws)
        assert "ONE" not in ws.builder.ensure(TARGET).prompt

    def test_a_workspace_folder_that_comes_to_serve_an_agent(self, make_workspace):
        """Whole-folder override: the place where the workspace's folder would be is an input."""
        ws = make_workspace({"global:agents/a/agent.yaml": agent(name="Theirs")})
        ws.builder.ensure(TARGET)
        ws.write({".halo/agents/a/agent.yaml": agent(name="Mine")})
        assert reason(ws) == "workspace:.halo/agents is new"
        assert "Mine" in ws.builder.ensure(TARGET).prompt

    def test_values_count_only_where_a_placeholder_asks_for_them(self, ws):
        """What every agent rests on is `general:` of the settings."""
        ws.write({".halo/settings.yaml": "s: {params: {k: none}}"})
        ws.builder.ensure(TARGET)
        ws.write({".halo/settings.yaml": "s: {params: {k: one}}"})
        assert reason(ws) == ""
        ws.write({".halo/settings.yaml": "general: {skills: {search: []}}\ns: {params: {k: one}}"})
        assert reason(ws) == "workspace:.halo/settings.yaml changed"
        ws.write({".halo/agents/a/AGENT.md": "{{s.params.k}}"})
        assert "one" in ws.builder.ensure(TARGET).prompt
        ws.write({".halo/settings.yaml": "s: {params: {k: two}}"})
        assert reason(ws) == "workspace:.halo/settings.yaml changed"

    def test_what_plays_no_part_is_not_an_input(self, ws):
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "x", ".halo/agents/c/agent.yaml": agent(), "README.md": "x"})
        assert reason(ws) == ""

    def test_what_a_team_member_or_a_skill_hides_is_nothing_to_who_lists_it(self, ws):
        """Only the prompt of that agent and the skill's own text say what they hide."""
        ws.write({"global:agents/x/agent.yaml": agent(), "global:skills/x/SKILL.md": skill("X")})
        ws.builder.ensure(TARGET)
        ws.builder.ensure(SkillTarget("s"))
        ws.write({"global:agents/b/agent.yaml": agent(), "global:skills/s/SKILL.md": skill("THEIRS")})
        assert reason(ws) == ""
        assert reason(ws, SkillTarget("s")) == "global:skills/s is new"
        ws.write({"global:agents/a/agent.yaml": agent()})
        assert reason(ws) == "global:agents/a is new"

    def test_a_same_size_edit_with_the_old_mtime_put_back(self, ws):
        """`cp -p`, `rsync -t` and `os.utime` cannot set the ctime."""
        path = ws.path(".halo/USER.md")
        before = path.stat()
        path.write_text("RESU")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
        assert reason(ws) == "workspace:.halo/USER.md changed"

    def test_another_file_renamed_into_place_with_the_old_mtime(self, ws):
        path = ws.path(".halo/USER.md")
        before = path.stat()
        other = path.with_name("other")
        other.write_text("RESU")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(path)
        assert reason(ws) == "workspace:.halo/USER.md changed"

    def test_a_link_that_leads_elsewhere_now(self, ws):
        path = ws.path(".halo/prompts/all/one.md")
        ws.write({"texts/v1.md": "V1", "texts/v2.md": "V2"})
        path.unlink()
        path.symlink_to("../../../texts/v1.md")
        assert "V1" in ws.builder.ensure(TARGET).prompt
        path.unlink()
        path.symlink_to("../../../texts/v2.md")
        assert "V2" in ws.builder.ensure(TARGET).prompt


class TestTouched:
    def test_what_was_only_touched_is_read_once_and_then_told_by_stat(self, ws):
        """doit would hash it again for ever."""
        for path in ws.halo.rglob("*.md"):
            os.utime(path)
        looked_closer = verdict(ws)
        assert looked_closer.reason == ""
        assert looked_closer.inputs is not None
        assert reason(ws) == ""
        assert verdict(ws) == Verdict()

    def test_the_artifact_is_the_same(self, ws):
        before = pointer(ws).artifact
        os.utime(ws.path(".halo/USER.md"))
        assert ws.builder.ensure(TARGET).id == before

    def test_what_only_a_closer_look_can_tell_is_not_recorded_again_each_time(self, make_workspace):
        """Stat data do not vouch for what lies behind a link; that is so before and after."""
        ws = make_workspace({**FILES, "shared/s/SKILL.md": skill("STEPS", description="adds")})
        for path in (ws.path(".halo/skills/s/SKILL.md"), ws.path(".halo/skills/s")):
            path.unlink() if path.is_file() else path.rmdir()
        ws.path(".halo/skills/s").symlink_to("../../shared/s")
        ws.builder.ensure(TARGET)
        assert verdict(ws) == Verdict()
        ws.write({"shared/s/SKILL.md": skill("STEPS", description="subtracts")})
        assert reason(ws)

    def test_an_edit_that_was_taken_back_is_fresh(self, ws):
        ws.write({".halo/USER.md": "other"})
        assert reason(ws)
        ws.write({".halo/USER.md": "USER"})
        assert reason(ws) == ""

    def test_a_pointer_that_cannot_be_renewed_is_no_failure(self, ws, monkeypatch):
        """A read-only workspace: fresh all the same."""

        def refuse(*_):
            raise OSError(30, "read-only file system")

        monkeypatch.setattr("halo.build.pointers.Pointers.write", refuse)
        os.utime(ws.path(".halo/USER.md"))
        assert reason(ws) == ""


class TestRacy:
    """An edit so soon after the recording that it could carry the same stamp, as in git's index."""

    def same_stamp_edit(self, ws, recorded_ns):
        """Make the pointer say that the changed file had its present stamp when it was recorded."""
        path = ws.path(".halo/USER.md")
        path.write_text("RESU")
        stamp = Stamp.of(path.stat())
        old = pointer(ws)
        inputs = tuple(
            msgspec.structs.replace(i, stamp=stamp) if i.path == "workspace:.halo/USER.md" else i
            for i in old.inputs
        )
        changed_ns = max(stamp.mtime_ns, stamp.ctime_ns)
        ws.builder.pointers.write(
            msgspec.structs.replace(old, inputs=inputs, recorded_ns=changed_ns + recorded_ns)
        )

    @pytest.mark.parametrize("rested_ns", [0, 1, RACY_NS - 1])
    def test_within_the_window_content_decides(self, ws, rested_ns):
        self.same_stamp_edit(ws, rested_ns)
        assert reason(ws) == "workspace:.halo/USER.md changed"

    def test_a_stamp_in_the_future_is_never_trusted(self, ws):
        """The clock was set back."""
        self.same_stamp_edit(ws, -3_600_000_000_000)
        assert reason(ws) == "workspace:.halo/USER.md changed"

    def test_outside_the_window_the_stamp_decides(self, ws):
        """The price of not reading everything each time; nothing but a forged ctime gets here."""
        self.same_stamp_edit(ws, RACY_NS)
        assert reason(ws) == ""

    def test_what_was_just_written_settles(self, make_workspace):
        """Built at once, the inputs are compared by content until they have rested."""
        ws = make_workspace(FILES)
        ws.ahead_ns = -60_000_000_000  # however slow this machine is
        ws.builder.ensure(TARGET)
        assert verdict(ws) == Verdict()  # compared, and nothing learnt that is worth a record
        ws.ahead_ns = 2 * RACY_NS
        assert verdict(ws).inputs is not None
        assert reason(ws) == ""
        assert verdict(ws) == Verdict()


class TestArtifacts:
    def prompt_file(self, ws):
        return ws.halo / "artifacts" / pointer(ws).artifact / "prompt.md"

    @pytest.mark.parametrize("name", ["prompt.md", "manifest.json"])
    @pytest.mark.parametrize("damage", ["edited", "emptied", "deleted"])
    def test_one_changed_by_hand_is_noticed_and_built_anew(self, ws, name, damage):
        before = ws.artifacts()
        path = self.prompt_file(ws).with_name(name)
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes() + b" " if damage == "edited" else b"")
        assert reason(ws)
        with pytest.raises(ArtifactError):
            ws.builder.frozen(TARGET)
        ws.builder.ensure(TARGET)
        assert ws.artifacts() == before

    def test_the_whole_folder_may_be_gone(self, ws):
        before = ws.artifacts()
        for path in (ws.halo / "artifacts").rglob("*.*"):
            path.unlink()
        self.prompt_file(ws).parent.rmdir()
        assert reason(ws)
        ws.builder.ensure(TARGET)
        assert ws.artifacts() == before

    def test_old_artifacts_stay(self, ws):
        """Sessions may refer to them."""
        before = ws.artifacts()
        ws.write({".halo/USER.md": "other"})
        ws.builder.ensure(TARGET)
        assert before.items() < ws.artifacts().items()

    def test_equal_text_is_one_artifact(self, ws):
        first = ws.builder.ensure(TARGET).id
        ws.write({".halo/USER.md": "other"})
        assert ws.builder.ensure(TARGET).id != first
        ws.write({".halo/USER.md": "USER"})
        assert ws.builder.ensure(TARGET).id == first

    def test_a_skills_text_does_not_change_the_agent(self, ws):
        """Only its name and description stand in the agent's prompt."""
        before = ws.builder.ensure(TARGET).id
        ws.write({".halo/skills/s/SKILL.md": skill("OTHER STEPS", description="adds")})
        assert ws.builder.ensure(TARGET).id == before
        ws.write({".halo/skills/s/SKILL.md": skill("OTHER STEPS", description="subtracts")})
        assert ws.builder.ensure(TARGET).id != before


class TestPointers:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda _: b"",
            lambda data: data[: len(data) // 2],
            lambda _: b"{}",
            lambda _: b"\xff\xfe",
            lambda data: data.replace(b'"format": 1', b'"format": 2'),
            lambda data: data.replace(b'"agent": "a"', b'"agent": "b"'),
        ],
        ids=["empty", "torn", "object", "binary", "format", "target"],
    )
    def test_a_damaged_one_costs_a_compile(self, ws, damage):
        path = ws.halo / "build" / "a" / "root.json"
        before = path.read_bytes()
        path.write_bytes(damage(before))
        assert path.read_bytes() != before
        assert reason(ws) == "it was not built yet"
        ws.builder.ensure(TARGET)
        assert reason(ws) == ""

    def test_one_of_another_compiler_is_stale(self, ws):
        ws.builder.pointers.write(msgspec.structs.replace(pointer(ws), compiler="halo-compiler/0"))
        assert reason(ws) == f"it was built by halo-compiler/0, this is {COMPILER}"
        ws.builder.ensure(TARGET)
        assert pointer(ws).compiler == COMPILER

    def test_the_folder_may_be_deleted_at_any_time(self, ws):
        before = ws.artifacts()
        for path in (ws.halo / "build").rglob("*.*"):
            path.unlink()
        ws.builder.ensure(TARGET)
        assert ws.artifacts() == before


class TestFailedCompile:
    """Whole or absent: an error leaves the old pointer in place, marked stale."""

    def test_the_old_artifact_stays_and_says_why_it_is_stale(self, ws):
        before = pointer(ws)
        ws.write({".halo/agents/a/agent.yaml": "model: {provider: openai, id: m}\nnmae: x\n"})
        with pytest.raises(LayerError, match="unknown key 'nmae'"):
            ws.builder.ensure(TARGET)
        after = pointer(ws)
        assert msgspec.structs.replace(after, stale="", seal=before.seal) == before
        assert after.stale.startswith("workspace:.halo/agents/a/agent.yaml:2: unknown key 'nmae'")
        assert ws.builder.store.load(after.artifact).prompt.startswith("## User Profile")
        assert reason(ws) == "workspace:.halo/agents/a/agent.yaml changed"

    def test_it_is_not_served_as_fresh(self, ws):
        ws.write({".halo/agents/a/agent.yaml": "x: ["})
        with pytest.raises(LayerError):
            ws.builder.ensure(TARGET)
        with pytest.raises(ArtifactError, match=r"a · root is stale: .*agent.yaml changed"):
            ws.builder.frozen(TARGET)

    def test_taken_back_it_is_fresh_and_no_longer_marked(self, ws):
        ws.write({".halo/agents/a/agent.yaml": "x: ["})
        with pytest.raises(LayerError):
            ws.builder.ensure(TARGET)
        ws.write({".halo/agents/a/agent.yaml": FILES[".halo/agents/a/agent.yaml"]})
        assert reason(ws) == ""
        assert pointer(ws).stale == ""

    def test_the_first_failure_writes_nothing(self, make_workspace):
        ws = make_workspace({".halo/agents/a/agent.yaml": "x: ["})
        with pytest.raises(LayerError):
            ws.builder.ensure(TARGET)
        assert (ws.artifacts(), ws.pointers()) == ({}, {})

    def test_a_removed_agent_cannot_be_ensured(self, ws):
        for path in sorted((ws.halo / "agents" / "a").iterdir()):
            path.unlink()
        (ws.halo / "agents" / "a").rmdir()
        with pytest.raises(UnknownNameError):
            ws.builder.ensure(TARGET)


class TestChangedMeanwhile:
    """An input that changes while its target is compiled is built next time (doit records it as seen)."""

    @pytest.mark.parametrize("moment", ["before", "after"])
    @pytest.mark.parametrize(
        ("path", "text"),
        [(".halo/USER.md", "RESU"), (".halo/prompts/all/two.md", "TWO"), (".halo/INDEX.md", "INDEX")],
    )
    def test_around_the_compile(self, make_workspace, monkeypatch, moment, path, text):
        from halo.compiler.compile import compile_target

        ws = make_workspace(FILES)

        def meddled(tree, target):
            if moment == "before":
                tree.read("workspace:.halo/USER.md")  # seen, and then changed under the compiler
                tree.kind("workspace:.halo/INDEX.md")
                tree.list("workspace:.halo/prompts/all")
                ws.write({path: text})
                return compile_target(tree, target)
            result = compile_target(tree, target)
            ws.write({path: text})
            return result

        with monkeypatch.context() as patch:
            patch.setattr("halo.compiler.compile.compile_target", meddled)
            ws.builder.ensure(TARGET)
        assert reason(ws)
        assert text in ws.builder.ensure(TARGET).prompt
        assert reason(ws) == ""


class TestOtherTargets:
    def test_directory_rules(self, ws):
        target = ScopeTarget("pkg")
        assert ws.builder.ensure(target).prompt == "### pkg\n\nPKG\n"
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "NEW"})
        assert reason(ws, target) == "workspace:pkg/.halo/INSTRUCTIONS.md changed"

    def test_rules_that_appear_further_up(self, ws):
        target = ScopeTarget("pkg/deep")
        ws.builder.ensure(target)
        ws.write({"pkg/deep/.halo/INSTRUCTIONS.md": "DEEP"})
        assert reason(ws, target) == "workspace:pkg/deep is new"

    def test_a_new_file_of_a_skill(self, ws):
        target = SkillTarget("s")
        ws.builder.ensure(target)
        ws.write({".halo/skills/s/scripts/run.py": ""})
        assert reason(ws, target) == "workspace:.halo/skills/s changed"
        assert "scripts/run.py" in ws.builder.ensure(target).prompt

    def test_the_content_of_a_skills_file_is_not_an_input(self, ws):
        target = SkillTarget("s")
        ws.write({".halo/skills/s/scripts/run.py": ""})
        ws.builder.ensure(target)
        ws.write({".halo/skills/s/scripts/run.py": "print()"})
        assert reason(ws, target) == ""

    def test_variants_have_pointers_of_their_own(self, ws):
        for target in (
            AgentTarget("a", "sub"),
            AgentTarget("a", directory="pkg"),
            AgentTarget("a", platform="windows"),
        ):
            ws.builder.ensure(target)
        assert set(ws.pointers()) == {"a/root", "a/sub", "a/root@pkg", "a/root+windows"}


class TestParts:
    def test_the_body_of_a_skill_is_nothing_to_its_agents(self, make_workspace):
        """An edited skill rebuilds the skill, and an agent only if name or description changed."""
        text = "---\nname: S\ndescription: does it\n---\n\nSTEPS\n"
        ws = make_workspace({**FILES, ".halo/skills/s/SKILL.md": text})
        ws.write({".halo/agents/a/agent.yaml": agent(skills=["s"])})
        skill_target = SkillTarget("s")
        ws.builder.ensure(TARGET)
        ws.builder.ensure(skill_target)
        ws.write({".halo/skills/s/SKILL.md": text + "MORE STEPS\n"})
        assert reason(ws) == ""
        assert reason(ws, skill_target) == "workspace:.halo/skills/s/SKILL.md changed"
        ws.write({".halo/skills/s/SKILL.md": text.replace("does it", "does more")})
        assert reason(ws) == "workspace:.halo/skills/s/SKILL.md changed"
        ws.builder.ensure(TARGET)
        ws.write({".halo/skills/s/SKILL.md": "no front matter any more\n"})
        assert reason(ws) == "workspace:.halo/skills/s/SKILL.md changed"
        ws.path(".halo/skills/s/SKILL.md").write_bytes(b"\xff\n")
        assert reason(ws) == "workspace:.halo/skills/s/SKILL.md changed"

    def test_the_text_of_a_member_is_nothing_to_its_team(self, make_workspace):
        ws = make_workspace({**FILES, ".halo/agents/m/agent.yaml": agent(description="d")})
        ws.write({".halo/agents/a/agent.yaml": agent(team=["m"]), ".halo/agents/m/AGENT.md": "M\n"})
        ws.builder.ensure(TARGET)
        ws.write({".halo/agents/m/AGENT.md": "other\n"})
        assert reason(ws) == ""
        ws.write({".halo/agents/m/agent.yaml": agent(description="other")})
        assert reason(ws) == "workspace:.halo/agents/m/agent.yaml changed"


class TestOrigin:
    def test_a_record_that_came_with_the_folder_is_not_taken_on_trust(self, ws, tmp_path):
        """A pointer may be forged by whoever made the repository, but not sealed."""
        path = ws.halo / "build" / "a" / "root.json"
        sealed = path.read_bytes()
        for forged in (
            msgspec.structs.replace(pointer(ws), inputs=()),
            msgspec.structs.replace(pointer(ws), artifact="0" * 40),
            msgspec.structs.replace(pointer(ws), seal=""),
        ):
            path.write_bytes(readable_json(forged))
            assert reason(ws) == "it was not built yet"
        path.write_bytes(sealed)
        assert reason(ws) == ""
        (ws.home / "machine.key").write_bytes(b"x" * 32)  # another user, another machine
        assert reason(ws) == "it was not built yet"

    def test_without_a_home_to_keep_a_key_in_every_call_compiles(self, make_workspace):
        ws = make_workspace(FILES)
        ws.home.write_text("a file where the home would be")
        assert ws.builder.ensure(TARGET).prompt == ws.builder.ensure(TARGET).prompt
        assert reason(ws) == "it was not built yet"

    @pytest.mark.parametrize("name", ["build", "artifacts", ""])
    def test_a_link_where_halo_keeps_its_own_files_is_refused(self, make_workspace, tmp_path, name):
        """Git can carry a link: Halo neither writes through it nor deletes what is behind it."""
        ws = make_workspace(FILES)
        victim = tmp_path / "victim"
        (victim / "proj").mkdir(parents=True)
        (victim / "proj" / "package.json").write_text("{}")
        own = ws.halo / name if name else ws.halo
        if own.exists():
            own.rename(victim / "moved")
        own.symlink_to(victim / "moved" if not name else victim)
        with pytest.raises(OSError, match="a link where Halo keeps its own files"):
            _ = ws.builder
        assert (victim / "proj" / "package.json").exists()
        assert ws.cli("build").returncode == 1

    @pytest.mark.parametrize("kind", ["fifo", "device", "deep"])
    def test_a_pointer_that_is_no_file_counts_as_absent(self, ws, kind):
        path = ws.halo / "build" / "a" / "root.json"
        path.unlink()
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.write_text('{"format":' + "[" * 100_000)
        assert reason(ws) == "it was not built yet"
        path.unlink()
        ws.builder.ensure(TARGET)
        assert reason(ws) == ""


class TestElsewhere:
    def test_a_folder_that_becomes_a_link_leads_elsewhere(self, ws, tmp_path):
        """Moved out of the workspace and linked back, it has the same stat data and is out of bounds."""
        moved = tmp_path / "elsewhere"
        (ws.halo / "agents").rename(moved)
        (ws.halo / "agents").symlink_to(moved)
        assert reason(ws) != ""

    def test_a_link_to_nowhere_is_not_absent(self, ws):
        (ws.halo / "INDEX.md").symlink_to("nowhere")
        assert reason(ws) == "workspace:.halo/INDEX.md is new"

    def test_a_layer_that_grew_huge_is_not_read_to_be_compared(self, ws):
        with open(ws.halo / "USER.md", "r+b") as file:
            file.truncate(1 << 40)
        assert reason(ws) == "workspace:.halo/USER.md changed"
