"""A build looks at what a change concerns, and at nothing else; it never misses what it concerns."""

import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import agent, examples, skill

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gate_lines import GateLines
from halo.build.gatekeeper import Gatekeeper, Seen, gate_roots
from halo.build.inspection import inspect, inspect_all
from halo.build.pointers import Pointers
from halo.build.whole import passes, survey
from halo.compiler.compile import compile_target
from halo.compiler.version import COMPILER
from halo.errors import HaloError
from halo.files.stamps import Stamp
from halo.records.targets import SkillTarget

FILES = {
    ".halo/USER.md": "USER",
    ".halo/prompts/all/one.md": "ONE",
    ".halo/agents/a/agent.yaml": agent(skills=["s"], team=["b"]),
    ".halo/agents/a/AGENT.md": "A",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/b/AGENT.md": "B",
    ".halo/agents/z/agent.yaml": agent(),
    ".halo/agents/z/AGENT.md": "Z",
    ".halo/skills/s/SKILL.md": skill("STEPS", description="adds"),
    ".halo/skills/t/SKILL.md": skill("OTHER", description="subtracts"),
    ".halo/settings.yaml": "general: {disabled: {agents: []}}\n",
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
    "global:USER.md": "GLOBAL",
}
A, B, Z = (["a/root", "a/sub"], ["b/root", "b/sub"], ["z/root", "z/sub"])
SKILLS, SCOPES = ["skills/s", "skills/t"], ["scopes/pkg"]
EVERY = sorted([*A, *B, *Z, *SKILLS, *SCOPES])


def build(builder):
    """What `halo build` does; return the names of the targets that it compiled."""
    inspection = inspect(builder)
    stale = list(inspection.stale)
    for target in stale:
        try:
            builder.ensure(target)
        except HaloError:
            continue
    inspection.look_again()
    inspection.finish()
    return sorted(target.name for target in stale)


@pytest.fixture
def ws(make_workspace):
    """A workspace in which everything is fresh and has rested."""
    made = make_workspace(FILES).without_templates()
    assert build(made.builder) == EVERY
    assert passes(made.builder)
    return made


@pytest.fixture
def looked_at(monkeypatch):
    """The names of the targets whose pointers were asked, in order of name."""
    names = set()
    real = Builder.status

    def status(self, target):
        names.add(target.name)
        return real(self, target)

    monkeypatch.setattr(Builder, "status", status)
    return lambda: sorted(names)


def save_by_rename(ws, key, text):
    """As most editors do."""
    path = ws.path(key)
    path.with_name("saved").write_text(text)
    path.with_name("saved").replace(path)


class TestWhatIsLookedAt:
    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            (".halo/agents/z/AGENT.md", Z),
            (".halo/agents/b/agent.yaml", [*A, *B]),  # `a` has it on its team
            (".halo/USER.md", [*A, *B, *Z, *SKILLS]),  # the name of the user is a placeholder
            (".halo/prompts/all/one.md", [*A, *B, *Z]),
            (".halo/skills/s/SKILL.md", [*A, "skills/s"]),
            ("pkg/.halo/INSTRUCTIONS.md", SCOPES),
        ],
    )
    @pytest.mark.parametrize("save", ["in place", "by rename"])
    def test_an_edit_concerns_who_rests_on_the_file(self, ws, looked_at, key, expected, save):
        text = FILES[key] + ("# \n" if key.endswith(".yaml") else "MORE")
        if save == "in place":
            ws.write({key: text})
        else:
            save_by_rename(ws, key, text)
        build(ws.builder)
        assert looked_at() == sorted(expected)
        assert passes(ws.builder)

    def test_nothing_is_looked_at_where_nothing_changed(self, ws, looked_at):
        assert inspect(ws.builder).stale == []
        assert looked_at() == []

    def test_pointers_of_others_are_not_read(self, ws, monkeypatch):
        read = []
        real = Pointers.named
        monkeypatch.setattr(Pointers, "named", lambda self, name: read.append(name) or real(self, name))
        ws.write({".halo/agents/z/AGENT.md": "NEW"})
        build(ws.builder)
        assert sorted(set(read)) == Z

    def test_targets_are_not_searched_for_again_after_an_edit(self, ws, monkeypatch):
        def never(_):
            raise AssertionError("searched")

        monkeypatch.setattr("halo.build.inspection.survey", never)
        ws.write({".halo/agents/z/AGENT.md": "NEW"})
        assert build(ws.builder) == Z

    def test_a_new_agent_is_found_and_the_others_are_left_alone(self, ws, looked_at):
        ws.write({".halo/agents/c/agent.yaml": agent()})
        assert build(ws.builder) == ["c/root", "c/sub"]
        assert looked_at() == ["c/root", "c/sub"]
        assert passes(ws.builder)

    def test_a_removed_agent_is_forgotten_and_the_others_are_left_alone(self, ws, looked_at):
        shutil.rmtree(ws.path(".halo/agents/z"))
        assert build(ws.builder) == []
        assert looked_at() == []
        assert "z/root" not in ws.pointers()
        assert passes(ws.builder)
        ws.write({".halo/agents/z/agent.yaml": agent()})
        assert build(ws.builder) == Z

    def test_a_damaged_pointer_or_artifact_concerns_its_target(self, ws, looked_at):
        (ws.halo / "build" / "z" / "sub.json").write_text("{")
        identity = ws.builder.pointers.read(SkillTarget("t")).artifact
        (ws.halo / "artifacts" / identity / "prompt.md").write_text("tampered")
        assert build(ws.builder) == ["skills/t", "z/sub"]
        assert looked_at() == ["skills/t", "z/sub"]
        assert passes(ws.builder)

    def test_what_was_just_written_is_looked_at_until_it_has_rested(self, ws, looked_at):
        ws.write({".halo/agents/z/AGENT.md": "NEW"})
        ws.ahead_ns = 0
        assert build(ws.builder) == Z
        ws.ahead_ns = 20_000_000_000
        build(ws.builder)
        build(ws.builder)
        assert looked_at() == Z
        assert inspect(ws.builder).write_gate()

    @pytest.mark.parametrize("how", ["compiler", "home", "damage", "seal"])
    def test_without_a_gate_that_holds_everything_is_looked_at(self, ws, looked_at, monkeypatch, how):
        path = ws.halo / "build" / "gate.txt"
        if how == "compiler":
            monkeypatch.setattr("halo.build.inspection.COMPILER", "halo-compiler/0")
        elif how == "home":
            shutil.copytree(ws.home, ws.home.with_name("other"))
            ws.home = ws.home.with_name("other")
        elif how == "damage":
            path.write_bytes(path.read_bytes()[:-9])
        else:
            path.write_bytes(b"0" * 32 + path.read_bytes()[32:])
        inspect(ws.builder)
        assert looked_at() == EVERY

    def test_a_folder_that_was_moved_and_is_a_link_now_is_no_way(self, ws, looked_at):
        """What lies in it has the stat data that it had; it leads out of the workspace all the same."""
        folder = ws.path(".halo/agents/z")
        outside = ws.home / "z"
        folder.rename(outside)
        folder.symlink_to(outside)
        inspection = inspect(ws.builder)
        assert (inspection.stale, sorted(inspection.finish())) == ([], Z)
        assert looked_at() == [name for name in EVERY if name not in Z]

    def test_links_to_folders_that_were_moved_along_with_the_one_above_them(self, ws, looked_at):
        """Not even the ctime of what they lead to is another."""
        folder = ws.path(".halo/agents")
        folder.rename(ws.root / "moved")
        folder.mkdir()
        for name in "abz":
            (folder / name).symlink_to(f"../../moved/{name}")
        assert inspect(ws.builder).stale == []
        assert looked_at() == EVERY

    def test_a_folder_that_changed_is_watched_on(self, ws, looked_at):
        """What came into it was nothing to anybody; the next change of it may be."""
        ws.write({"pkg/.halo/notes.txt": "x"})
        assert build(ws.builder) == []
        assert passes(ws.builder)
        ws.write({"pkg/.halo/more.txt": "x"})
        assert not passes(ws.builder)
        assert build(ws.builder) == []
        shutil.rmtree(ws.path("pkg/.halo"))
        build(ws.builder)
        assert passes(ws.builder)
        assert looked_at() == []

    def test_a_link_in_place_of_a_file_in_a_folder_that_changed(self, ws, looked_at):
        path = ws.path(".halo/agents/z/AGENT.md")
        path.rename(ws.home / "AGENT.md")
        path.symlink_to(ws.home / "AGENT.md")
        inspect(ws.builder)
        assert looked_at() == EVERY


class TestWhatIsLookedAtEachTime:
    def test_a_broken_target_until_it_is_mended(self, ws, looked_at):
        ws.write({".halo/agents/z/agent.yaml": "model: ["})
        for _ in range(3):
            assert build(ws.builder) == Z
            assert not passes(ws.builder)
        assert looked_at() == Z
        ws.write({".halo/agents/z/agent.yaml": agent(name="Mended")})
        assert build(ws.builder) == Z
        assert passes(ws.builder)

    def test_one_that_was_never_built(self, ws, looked_at):
        ws.write({".halo/agents/c/agent.yaml": "model: ["})
        for _ in range(2):
            assert build(ws.builder) == ["c/root", "c/sub"]
        assert looked_at() == ["c/root", "c/sub"]
        ws.write({".halo/agents/c/agent.yaml": agent()})
        assert build(ws.builder) == ["c/root", "c/sub"]
        assert passes(ws.builder)

    def test_what_no_target_can_use_is_said_by_each_build(self, ws, looked_at):
        ws.write({".halo/agents/not an id/agent.yaml": agent()})
        for _ in range(2):
            inspection = inspect(ws.builder)
            inspection.finish()
            assert [oddity.code for oddity in inspection.oddities] == ["unusable-name"]
            assert not passes(ws.builder)
        assert looked_at() == []

    def test_what_every_build_says_of_a_fresh_target(self, ws, looked_at):
        prompt = "{context_files: [SOUL.md], context_overflow: truncate}"
        ws.write({".halo/SOUL.md": "x" * 30_000, ".halo/settings.yaml": f"general: {{prompt: {prompt}}}\n"})
        build(ws.builder)
        ws.write({"pkg/.halo/INSTRUCTIONS.md": "NEW"})
        inspection = inspect(ws.builder)
        assert [remark.code for remark in inspection.remarks] == ["context-truncated"]
        assert set(looked_at()) >= {*A, *SCOPES}
        assert inspection.count == len(EVERY)


def test_touched_files_cost_one_look(ws, looked_at):
    """A checkout of another branch and back: the pointers are renewed, and then it is settled."""
    for path in ws.halo.rglob("*.*"):
        if "build" not in path.parts and "artifacts" not in path.parts:
            os.utime(path)
    assert build(ws.builder) == []
    assert looked_at() == [name for name in EVERY if name not in SCOPES]
    assert passes(ws.builder)


def test_old_artifacts_do_not_pile_up_in_the_gate(ws):
    path = ws.halo / "build" / "gate.txt"
    lines = []
    for i in range(6):
        ws.write({".halo/agents/z/AGENT.md": f"EDIT {i}"})
        build(ws.builder)
        lines.append(path.read_bytes().count(b"\n"))
    assert len(set(lines)) == 1
    shutil.rmtree(ws.path(".halo/agents/z"))
    build(ws.builder)
    assert b"agents/z" not in path.read_bytes()


def stamp(number):
    return Stamp(number, number, number, number)


class TestLines:
    """Of two observations of one path the stronger counts; where they contradict each other, none does."""

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [
            ((1, "-"), (1, "-"), "1 1 1 1 -"),
            ((1, "-"), (1, "exists"), "1 1 1 1 -"),
            ((1, "d1"), (1, "-"), "1 1 1 1 -"),
            ((1, "exists"), (1, "d1"), "1 1 1 1 d1"),
            ((1, "d1"), (1, "d2"), "?"),
            ((1, "-"), (1, "?"), "?"),
            ((1, "-"), (2, "-"), "?"),
            ((1, "-"), None, "?"),
            (None, None, "-"),
        ],
    )
    @pytest.mark.parametrize("swapped", [False, True])
    def test_two_observations(self, one, other, expected, swapped):
        lines = GateLines()
        for seen in (other, one) if swapped else (one, other):
            number = lines.absent("/p") if seen is None else lines.file("/p", stamp(seen[0]), seen[1])
            assert number == 0
        assert lines.gate("", 0).lines == [f"{expected}\t/p"]

    def test_who_goes_takes_along_what_only_he_needed(self):
        lines = GateLines()
        shared, mine = lines.file("/w/shared", stamp(1), "-"), lines.file("/w/d/mine", stamp(2), "-")
        folder = lines.file("/w/d", stamp(3), "-")
        lines.own("one", [shared, mine, folder])
        lines.own("two", [shared, lines.absent("/w/d/other")])
        lines.drop(["one"], set())
        assert [line.partition("\t")[2] for line in lines.gate("", 0).lines] == [
            "/w/shared",
            "",
            "/w/d",  # it leads to a line of the other
            "/w/d/other",
        ]
        assert lines.absent("/w/new") == mine  # its place is taken again

    def test_a_gate_is_read_back_as_it_was_written(self, tmp_path):
        lines = GateLines()
        lines.own("a/root", [lines.file("/w/a\tb", stamp(1), "-"), lines.absent("/w/c")])
        lines.own("b/root", [])
        roots = ("/w", str(tmp_path), "/t", "/u")
        (tmp_path / "machine.key").write_bytes(b"k" * 32)
        data = gate.render(lines.gate("2", 7), roots=roots, compiler="c", key=b"k" * 32)
        (tmp_path / "gate").write_bytes(data)
        again = gate.read(str(tmp_path / "gate"), roots, "c")
        assert (again.answer, again.recorded_ns) == ("2", 7)
        assert (again.lines, again.owners) == (["1 1 1 1 -\t/w/a\tb", "-\t/w/c"], ["a/root 0 1", "b/root "])
        resumed = GateLines.of(again)
        assert resumed.resting_on({1}) == {"a/root"}
        assert resumed.gate("2", 7).lines == again.lines

    def test_what_cannot_stand_on_a_line_makes_no_gate(self):
        lines = GateLines()
        lines.absent("/w/a\nb")
        assert gate.render(lines.gate("", 0), roots=("", "", "", ""), compiler="c", key=b"k") is None


def test_an_artifact_written_since_it_was_loaded_is_told_by_its_id(ws):
    """Its stamp alone does not say what was loaded."""
    pointer = ws.builder.pointers.read(SkillTarget("s"))
    prompt, manifest = ws.builder.store.files(pointer.artifact)
    ws.ahead_ns = 0
    seen = Seen(ws.builder.pointers.path(SkillTarget("s")), ws.builder.now_ns())
    keeper = Gatekeeper(ws.places)
    keeper.own_target(pointer, seen, (prompt, manifest))
    assert keeper.lines.sure
    with open(prompt, "a", encoding="utf-8") as file:
        file.write("tampered")
    keeper = Gatekeeper(ws.places)
    keeper.own_target(pointer, seen, (prompt, manifest))
    assert not keeper.lines.sure


TEXTS = {
    ".halo/USER.md": ["", "USER", "Mira.\n"],
    ".halo/INDEX.md": ["INDEX"],
    ".halo/INSTRUCTIONS.md": ["RULES"],
    ".halo/prompts/all/one.md": ["ONE", "TWO"],
    ".halo/prompts/root/x.md": ["X"],
    ".halo/agents/a/agent.yaml": [FILES[".halo/agents/a/agent.yaml"], agent(), "model: ["],
    ".halo/agents/a/AGENT.md": ["A", "{{s.params.k}}", "{{x}}"],
    ".halo/agents/b/agent.yaml": [agent(), agent(description="new"), agent(nope=1)],
    ".halo/agents/b/fewshots/one.md": ["## user\nHi\n## assistant\nHo\n"],
    ".halo/agents/c/agent.yaml": [agent(team=["a", "b"])],
    ".halo/agents/not an id/agent.yaml": [agent()],
    ".halo/skills/s/SKILL.md": [skill("S", description="d"), skill("S", description="e"), "plain"],
    ".halo/skills/s/notes.md": ["n"],
    ".halo/skills/t/SKILL.md": [skill("T")],
    ".halo/settings.yaml": [
        "general: {disabled: {agents: [b]}}\n",
        "general: {skills: {search: [.agents/skills]}}\n",
        "s: {params: {k: v}}\n",
        "general: [",
    ],
    ".agents/skills/s/SKILL.md": [skill("FOREIGN")],
    "pkg/.halo/INSTRUCTIONS.md": ["PKG", "PACKAGE"],
    "pkg/deep/.halo/INSTRUCTIONS.md": ["DEEP"],
    "global:agents/b/agent.yaml": [agent(name="Theirs")],
    "global:skills/t/SKILL.md": [skill("THEIRS")],
}
KEYS = sorted(TEXTS)
WRITES = st.sampled_from(KEYS).flatmap(
    lambda key: st.tuples(st.sampled_from(["write", "save"]), st.just(key), st.sampled_from(TEXTS[key]))
)
OTHERS = st.tuples(
    st.sampled_from(["delete", "touch", "remove folder", "to link", "to folder"]), st.sampled_from(KEYS)
)
DAMAGE = st.tuples(st.sampled_from(["tamper", "forget pointer", "forget artifact"]), st.integers(0, 50))


def change(ws, clock, edit):
    """Change something on disk; files get times of their own, so that no two edits look the same."""
    what, where, *text = edit
    if what in ("tamper", "forget pointer", "forget artifact"):
        _damage(ws, what, where)
        return
    path = ws.path(where)
    if what in ("write", "save"):
        if path.is_dir() or not _make_folder(path.parent):
            return
        target = path if what == "write" and not path.is_symlink() else path.with_name("saved")
        target.write_text(text[0])
        os.utime(target, ns=(clock, clock))
        target.replace(path)
    elif what == "remove folder":
        shutil.rmtree(path.parent, ignore_errors=True)
    elif not path.is_file():
        return
    elif what == "touch":
        os.utime(path, ns=(clock, clock))
    else:
        _replace(ws, path, what)


def _make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _replace(ws, path, what):
    """Delete a file, put a folder in its place, or move its folder and leave a link."""
    if what == "to link":
        if not path.parent.is_symlink() and path.parent.name not in (".halo", "home"):
            moved = ws.root / "moved" / str(len(list((ws.root / "moved").glob("*"))))
            _make_folder(moved.parent)
            path.parent.rename(moved)
            path.parent.symlink_to(moved)
        return
    path.unlink()
    if what == "to folder":
        path.mkdir()


def _damage(ws, what, number):
    pattern = "*/*.json" if what == "forget pointer" else "*/prompt.md"
    folder = ws.halo / ("build" if what == "forget pointer" else "artifacts")
    found = sorted(folder.glob(pattern))
    if found:
        path = found[number % len(found)]
        if what == "tamper":
            path.write_text("tampered")
        elif what == "forget pointer":
            path.unlink()
        else:
            shutil.rmtree(path.parent)


def stale_by_pointers(builder):
    return {t.name for t in survey(builder).targets if builder.status(t).artifact is None}


def outcome(make):
    """The prompt, or what is wrong."""
    try:
        return make()
    except HaloError as error:
        return f"{type(error).__name__}: {error}"


@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(st.lists(WRITES | WRITES | OTHERS | DAMAGE, min_size=1, max_size=3), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_after_any_edits_a_build_gives_what_a_build_from_nothing_gives(make_workspace, steps):
    """And before it: the gate passes only where nothing is stale, and finds all that is."""
    ws = make_workspace(FILES).without_templates()
    build(ws.builder)
    clock = 10**18
    for edits, rested in steps:
        ws.ahead_ns = 10_000_000_000 if rested else 0
        for edit in edits:
            clock += 10**9
            change(ws, clock, edit)
        if not isinstance(found := outcome(lambda: survey(ws.builder)), str):
            _check(ws, found)
        else:
            assert not passes(ws.builder)
            assert outcome(lambda: inspect(ws.builder)) == found


def _check(ws, whole):
    places = ws.places
    passed = gate.ask(gate.workspace_gate(places.workspace), gate_roots(places), COMPILER)
    stale = stale_by_pointers(ws.builder)
    assert passed is None or (passed == str(len(whole.targets)) and not stale)
    assert {target.name for target in inspect(ws.builder).stale} == stale
    build(ws.builder)
    expected = {t.name: outcome(lambda t=t: compile_target(places.tree(), t).prompt) for t in whole.targets}
    broken = {name for name, text in expected.items() if ": " in text.split("\n")[0] and "Error" in text[:24]}
    built = {t.name: ws.builder.status(t).artifact for t in whole.targets}
    assert {name for name, artifact in built.items() if artifact is None} == broken
    assert {n: a.prompt for n, a in built.items() if a} == {
        n: t for n, t in expected.items() if n not in broken
    }
    assert {name for name in ws.pointers() if name not in broken} <= built.keys()
    assert inspect_all(survey(ws.builder)).count == len(whole.targets)
