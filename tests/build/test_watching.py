"""What a watcher notices, and what it does about it. The folders, the files and the system's events are real."""

import os
import shutil
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import agent, skill

from halo.build.builder import Builder
from halo.build.freshness import check_inputs
from halo.build.targets import default_targets
from halo.build.watch.consulted import Consulted, Touched, folders_above
from halo.build.watch.events import Back, Built, Failed, Gone, Lost, Watching
from halo.build.watch.folders import Watched
from halo.build.watch.inventory import Inventory
from halo.build.watch.loop import Watcher
from halo.build.watch.notices import Notice, Noticed, Notices
from halo.errors import TreeError
from halo.files.tree import DiskTree, RecordingTree
from halo.records.artifacts import Pointer
from halo.records.diagnostics import Diagnostic
from halo.records.targets import SkillTarget
from halo.workspace.places import Places

A = ".halo/agents/a"


class Running:
    """A watcher that has looked at everything once. `next` waits for as long as a test may take."""

    def __init__(self, ws, builder=None, notices=None):
        self.ws = ws
        self.notices = notices or Notices()
        self.events = Watcher(builder or ws.builder, self.notices).events()
        self.first = [next(self.events)]
        while not isinstance(self.first[-1], Watching):
            self.first.append(next(self.events))

    def next(self):
        return next(self.events)

    def built(self, *names):
        """The next events, which must be that these targets were built, in any order; by name."""
        found = {}
        while set(found) != set(names):
            event = self.next()
            assert isinstance(event, Built), event
            assert event.target.name in names
            found[event.target.name] = event
        return found

    def settled(self):
        """Go on until every target is fresh and none is too many: what a whole build would leave.

        An edit elsewhere marks what has been gone through; its event comes after those of all before it.
        """
        for _ in range(20):
            self.ws.write({"marker/.halo/INSTRUCTIONS.md": f"Mark {time.time_ns()}.\n"})
            event = None
            while not isinstance(event, Built) or event.target.name != "scopes/marker":
                event = self.next()
            targets = default_targets(self.ws.places.tree()).targets
            fresh = all(self.ws.builder.status(t).artifact is not None for t in targets)
            if fresh and set(self.ws.pointers()) == {t.name for t in targets}:
                return
        raise AssertionError("not settled")


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            f"{A}/agent.yaml": agent(skills=["s"]),
            f"{A}/AGENT.md": "You are A.\n\nBe kind.\n",
            ".halo/agents/b/agent.yaml": agent(),
            ".halo/agents/b/AGENT.md": "You are B.\n",
            ".halo/skills/s/SKILL.md": skill("Do it.\n", name="s", description="does it"),
            "docs/.halo/INSTRUCTIONS.md": "Docs are short.\n",
        }
    ).without_templates()


@pytest.fixture
def watch(request):
    """Start a watcher; it is stopped after the test."""

    def start(ws, **options):
        running = Running(ws, **options)
        request.addfinalizer(running.notices.close)
        request.addfinalizer(running.events.close)
        return running

    return start


class TestWhatIsNoticed:
    def test_what_is_stale_is_built_first(self, ws, watch):
        first = watch(ws).first
        assert [e.target.name for e in first[:-1]] == [
            "a/root",
            "a/sub",
            "b/root",
            "b/sub",
            "scopes/docs",
            "skills/s",
        ]
        assert first[-1].targets == 6
        assert first[-1].failed == 0

    def test_what_is_fresh_is_not_built_again(self, ws, watch):
        for target in default_targets(ws.places.tree()).targets:
            ws.builder.ensure(target)
        assert [type(e) for e in watch(ws).first] == [Watching]

    def test_an_edit_builds_what_it_concerns_and_says_where_it_is(self, ws, watch):
        running = watch(ws)
        ws.write({f"{A}/AGENT.md": "You are A.\n\nBe very kind.\n"})
        event = running.built("a/root", "a/sub")["a/root"]
        assert (event.difference.first_change.source, event.difference.first_change.line) == (
            f"workspace:{A}/AGENT.md",
            3,
        )
        assert event.artifact == ws.builder.fresh(event.target)

    def test_a_touch_builds_nothing(self, ws, watch):
        running = watch(ws)
        os.utime(ws.root / A / "AGENT.md")
        ws.write({".halo/agents/b/AGENT.md": "You are B now.\n"})
        running.built("b/root", "b/sub")

    def test_a_skill_concerns_an_agent_by_its_description_only(self, ws, watch):
        running = watch(ws)
        ws.write({".halo/skills/s/SKILL.md": skill("Do it well.\n", name="s", description="does it")})
        running.built("skills/s")
        ws.write({".halo/skills/s/SKILL.md": skill("Do it well.\n", name="s", description="does it well")})
        running.built("a/root", "a/sub", "skills/s")

    @pytest.mark.parametrize("where", [".halo/USER.md", "global:USER.md", "workspace:.halo/INDEX.md"])
    def test_a_layer_that_was_absent_appears_and_goes(self, ws, watch, where):
        running = watch(ws)
        ws.write({where: "Something new.\n"})
        readers = ("a/root", "b/root") if "USER" in where else ("a/root", "a/sub", "b/root", "b/sub")
        running.built(*readers)
        ws.path(where).unlink()
        running.built(*readers)

    def test_a_file_behind_a_link_counts(self, ws, watch):
        ws.write({"shared/user.md": "Mira.\n"})
        (ws.halo / "USER.md").symlink_to("../shared/user.md")
        running = watch(ws)
        ws.write({"shared/user.md": "Mira and Tom.\n"})
        running.built("a/root", "b/root")

    def test_a_folder_behind_a_link_counts(self, ws, watch):
        shutil.move(ws.root / A, ws.root / "elsewhere")
        (ws.root / A).symlink_to("../../elsewhere")
        running = watch(ws)
        ws.write({"elsewhere/AGENT.md": "You are another A.\n"})
        running.built("a/root", "a/sub")


class TestHowEditorsSave:
    def edit(self, ws, watch, save):
        """An edit, saved in some way, is noticed each time."""
        running = watch(ws)
        for text in ("You are new.\n", "You are newer.\n", "You are the newest.\n"):
            save(ws.root / A, text)
            assert running.built("a/root", "a/sub")["a/root"].artifact.prompt.startswith(text)

    def test_a_rename_over_the_file(self, ws, watch):
        def save(folder, text):
            (folder / ".AGENT.md.tmp").write_text(text)
            os.replace(folder / ".AGENT.md.tmp", folder / "AGENT.md")

        self.edit(ws, watch, save)

    def test_a_backup_aside_and_a_new_file(self, ws, watch):
        def save(folder, text):
            (folder / "4913").write_text("")
            (folder / "4913").unlink()
            os.rename(folder / "AGENT.md", folder / "AGENT.md~")
            (folder / "AGENT.md").write_text(text)
            (folder / "AGENT.md~").unlink()

        self.edit(ws, watch, save)

    def test_a_new_file_and_the_old_one_deleted(self, ws, watch):
        def save(folder, text):
            (folder / "AGENT.md").unlink()
            (folder / "AGENT.md").write_text(text)

        self.edit(ws, watch, save)

    def test_a_whole_folder_replaced(self, ws, watch):
        def save(folder, text):
            shutil.copytree(folder, folder.parent / "_new")
            (folder.parent / "_new" / "AGENT.md").write_text(text)
            shutil.rmtree(folder)
            os.rename(folder.parent / "_new", folder)

        running = watch(ws)
        for text in ("You are new.\n", "You are newer.\n"):
            save(ws.root / A, text)
            while not (isinstance(event := running.next(), Built) and event.target.name == "a/sub"):
                pass
            running.settled()
            assert event.artifact.prompt.startswith(text)

    def test_what_editors_leave_beside_a_file_is_nothing(self, ws, watch):
        ws.write({".halo/prompts/all/RULES.md": "Rules.\n"})
        running = watch(ws)
        ws.write({".halo/prompts/all/.RULES.md.swp": "x", ".halo/prompts/all/RULES.md~": "x"})
        time.sleep(1.5)  # longer than it takes to look for what no event tells
        ws.write({".halo/agents/b/AGENT.md": "You are B now.\n"})
        running.built("b/root", "b/sub")


class TestErrors:
    def test_a_failure_is_said_once_and_leaves_the_artifact(self, ws, watch):
        running = watch(ws)
        before = ws.builder.pointers.read(default_targets(ws.places.tree()).targets[0])
        ws.write({f"{A}/agent.yaml": "model: {provider: openai"})
        failed = [running.next(), running.next()]
        assert [(type(e), e.target.name) for e in failed] == [(Failed, "a/root"), (Failed, "a/sub")]
        assert f"{A}/agent.yaml:1" in failed[0].message
        after = ws.builder.pointers.read(before.target)
        assert after.artifact == before.artifact
        assert after.stale
        os.utime(ws.root / A / "agent.yaml")  # the same failure again
        ws.write({f"{A}/agent.yaml": agent(skills=["s"])})
        events = running.built("a/root", "a/sub")
        assert events["a/root"].artifact.id == before.artifact
        assert events["a/root"].difference.change == "unchanged"
        assert not ws.builder.pointers.read(before.target).stale

    def test_what_a_failure_lacks_is_waited_for(self, ws, watch):
        running = watch(ws)
        ws.write({".halo/agents/b/agent.yaml": agent(team=["c"])})
        assert isinstance(running.next(), Failed)
        assert isinstance(running.next(), Failed)
        ws.write({".halo/agents/c/agent.yaml": agent(), ".halo/agents/c/AGENT.md": "You are C.\n"})
        running.built("b/root", "b/sub", "c/root", "c/sub")

    def test_an_agent_that_never_compiled_is_built_when_it_can_be(self, ws, watch):
        ws.write({f"{A}/agent.yaml": "model: {"})
        running = watch(ws)
        assert running.first[-1].failed == 2
        ws.write({f"{A}/agent.yaml": agent()})
        running.built("a/root", "a/sub")

    def test_broken_settings_are_not_the_end_of_any_target(self, ws, watch):
        running = watch(ws)
        ws.write({".halo/settings.yaml": "general: {skills: 7"})
        first = running.next()
        assert isinstance(first, Failed)
        assert first.target is None
        pointers = set(ws.pointers())
        ws.write({".halo/settings.yaml": ""})
        running.settled()
        assert set(ws.pointers()) == {*pointers, "scopes/marker"}

    def test_settings_that_were_broken_from_the_start(self, ws, watch):
        for target in default_targets(ws.places.tree()).targets:
            ws.builder.ensure(target)
        pointers = set(ws.pointers())
        ws.write({".halo/settings.yaml": "general: {skills: 7"})
        running = watch(ws)
        assert set(ws.pointers()) == pointers
        ws.write({".halo/settings.yaml": "general: {}"})
        running.built(*(pointers - {"scopes/docs"}))  # which is nothing to settings

    def test_what_the_system_refuses_is_tried_again(self, ws, watch):
        running = watch(ws)
        os.rename(ws.halo / "artifacts", ws.halo / "aside")
        (ws.halo / "artifacts").write_text("in the way")
        ws.write({f"{A}/AGENT.md": "You are refused.\n"})
        assert [type(running.next()) for _ in range(2)] == [Failed, Failed]
        (ws.halo / "artifacts").unlink()
        running.built("a/root", "a/sub")

    def test_a_name_that_is_no_text_is_survived(self, ws, watch):
        running = watch(ws)
        try:
            with open(os.fsencode(ws.root / A) + b"/\xff\xfe", "w"):
                pass
        except OSError:
            pytest.skip("this file system wants UTF-8")
        ws.write({f"{A}/AGENT.md": "You are A still.\n"})
        running.built("a/root", "a/sub")


class TestTargets:
    def test_a_new_agent_a_new_skill(self, ws, watch):
        running = watch(ws)
        ws.write({".halo/agents/c/agent.yaml": agent(), ".halo/skills/t/SKILL.md": skill("T.\n")})
        events = [running.next() for _ in range(3)]
        assert {e.target.name for e in events if isinstance(e, Built)} == {"c/root", "c/sub", "skills/t"}
        ws.write({".halo/agents/c/AGENT.md": "You are C.\n"})
        running.built("c/root", "c/sub")

    def test_a_removed_agent_leaves_nothing_behind(self, ws, watch):
        running = watch(ws)
        shutil.rmtree(ws.halo / "agents" / "b")
        found = set()
        while {"b/root", "b/sub"} - found:
            event = running.next()
            if isinstance(event, Gone):
                found.add(event.name)
        assert not {"b/root", "b/sub"} & set(ws.pointers())

    def test_rules_of_a_directory_come_and_go(self, ws, watch):
        running = watch(ws)
        ws.write({"src/deep/er/.halo/INSTRUCTIONS.md": "Deep.\n"})
        running.built("scopes/src%2fdeep%2fer")
        ws.write({"src/deep/er/.halo/INSTRUCTIONS.md": "Deeper.\n"})
        running.built("scopes/src%2fdeep%2fer")
        shutil.rmtree(ws.root / "src")
        assert running.next() == Gone("scopes/src%2fdeep%2fer")
        ws.write({"src/deep/er/.halo/INSTRUCTIONS.md": "Deep again.\n"})
        running.built("scopes/src%2fdeep%2fer")

    def test_a_folder_for_rules_that_come_later(self, ws, watch):
        running = watch(ws)
        (ws.root / "src" / "x" / ".halo").mkdir(parents=True)
        ws.write({"docs/.halo/INSTRUCTIONS.md": "Docs are shorter.\n"})
        running.built("scopes/docs")
        ws.write({"src/x/.halo/INSTRUCTIONS.md": "X.\n"})
        running.built("scopes/src%2fx")

    def test_a_directory_that_moves(self, ws, watch):
        running = watch(ws)
        os.rename(ws.root / "docs", ws.root / "manual")
        events = {type(e): e for e in (running.next(), running.next())}
        assert events[Gone].name == "scopes/docs"
        assert events[Built].target.name == "scopes/manual"
        ws.write({"manual/.halo/INSTRUCTIONS.md": "Manuals are long.\n"})
        running.built("scopes/manual")

    def test_what_nothing_can_use_is_said_once(self, ws, watch):
        running = watch(ws)
        ws.write({".halo/agents/not a name/agent.yaml": agent()})
        remark = running.next()
        assert isinstance(remark, Diagnostic)
        assert remark.code == "unusable-name"
        ws.write({".halo/agents/c/agent.yaml": agent()})
        running.built("c/root", "c/sub")


class TestUpheavals:
    def test_a_burst_builds_each_target_once(self, ws, watch):
        running = watch(ws)
        for i in range(1000):
            ws.write({f"notes/{i % 10}/{i}.txt": "x"})
        for i in range(50):
            ws.write({f"{A}/AGENT.md": f"You are number {i}.\n", ".halo/agents/b/AGENT.md": f"B{i}.\n"})
        seen = []
        while not (seen and {"a/root", "a/sub", "b/root", "b/sub"} <= {e.target.name for e in seen}):
            seen.append(running.next())
        assert all(isinstance(e, Built) for e in seen)
        assert len(seen) < 20  # not one for each of a hundred saves

    def test_halo_vanishes_and_comes_back(self, ws, watch):
        running = watch(ws)
        os.rename(ws.halo, ws.root / "aside")
        assert running.next() == Lost(str(ws.halo))
        assert not ws.halo.exists()  # nothing was written into it
        os.rename(ws.root / "aside", ws.halo)
        assert running.next() == Back(str(ws.halo))
        assert isinstance(running.next(), Watching)
        ws.write({f"{A}/AGENT.md": "You are back.\n"})
        running.built("a/root", "a/sub")

    def test_another_halo_in_its_place(self, ws, watch):
        running = watch(ws)
        shutil.copytree(ws.halo, ws.root / "other")
        (ws.root / "other/agents/a/AGENT.md").write_text("You are another.\n")
        os.rename(ws.halo, ws.root / "aside")
        os.rename(ws.root / "other", ws.halo)
        for _ in range(2):  # at once, or after it was missed in between
            event = running.next()
            while not isinstance(event, Built):
                event = running.next()
            assert event.target.agent == "a"
        ws.write({f"{A}/AGENT.md": "You are yet another.\n"})
        running.built("a/root", "a/sub")

    def test_the_folder_above_the_workspace_moves_away_and_back(self, ws, watch):
        running = watch(ws)
        above = ws.root.parent
        os.rename(above, above.with_name("moved"))
        assert isinstance(running.next(), Lost)
        os.rename(above.with_name("moved"), above)
        assert isinstance(running.next(), Back)
        assert isinstance(running.next(), Watching)
        ws.write({f"{A}/AGENT.md": "You are back.\n"})
        running.built("a/root", "a/sub")

    def test_what_changes_while_it_is_compiled_is_seen(self, ws, watch):
        """The file is written again right after the compiler has read it."""

        class Saving(Builder):
            again = ""

            def compile(self, target, old=None, tree=None):
                made = super().compile(target, old, tree)
                if self.again:
                    ws.write({f"{A}/AGENT.md": self.again})
                    self.again = ""
                return made

        builder = Saving(ws.places, ws.now_ns)
        running = watch(ws, builder=builder)
        builder.again = "You are second.\n"
        ws.write({f"{A}/AGENT.md": "You are first.\n"})
        while True:
            event = running.next()
            if event.target.name == "a/root" and event.artifact.prompt.startswith("You are second."):
                break
        running.settled()

    def test_what_changed_before_the_first_look_is_seen(self, ws, watch):
        """The watch begins before anything is looked at: a change in between waits in it."""

        class Late(Notices):
            def open(self, folders):
                super().open(folders)
                ws.write({f"{A}/AGENT.md": "You are late.\n", "late/.halo/INSTRUCTIONS.md": "Late.\n"})

        running = watch(ws, notices=Late())
        built = {e.target.name: e for e in running.first[:-1]}
        assert built["a/root"].artifact.prompt.startswith("You are late.")
        assert "scopes/late" in built or running.built("scopes/late")

    def test_what_no_event_tells_is_found_by_looking(self, ws, watch):
        class Deaf(Notices):
            def wait(self, seconds):
                super().wait(seconds)
                return Noticed(set())

        running = watch(ws, notices=Deaf())
        ws.write({f"{A}/AGENT.md": "You are unheard.\n"})
        running.built("a/root", "a/sub")
        ws.write({"new/.halo/INSTRUCTIONS.md": "New.\n"})
        running.built("scopes/new")

    def test_somebody_else_builds_at_the_same_time(self, ws, watch):
        one, other = watch(ws), watch(ws)
        ws.write({f"{A}/AGENT.md": "You are watched twice.\n"})
        artifacts = {r.built("a/root", "a/sub")["a/root"].artifact.id for r in (one, other)}
        assert len(artifacts) == 1
        one.settled()

    def test_whole_trees_are_watched_where_that_costs_nothing(self, ws, watch):
        running = watch(ws, notices=Notices(deep=True))
        assert running.first[-1].folders == 2  # the workspace and the templates; there is no global folder
        ws.write({f"{A}/AGENT.md": "You are deep.\n", "x/y/.halo/INSTRUCTIONS.md": "Y.\n"})
        running.built("a/root", "a/sub", "scopes/x%2fy")

    def test_polling_tells_the_same(self, ws, watch):
        running = watch(ws, notices=Notices(polling=True))
        ws.write({f"{A}/AGENT.md": "You are polled.\n"})
        running.built("a/root", "a/sub")


# Which folders are watched


class TestWatched:
    @pytest.fixture
    def roots(self, tmp_path):
        for folder in ("ws/.halo/agents", "ws/shared", "outside"):
            (tmp_path / folder).mkdir(parents=True)
        return {"workspace": str(tmp_path / "ws"), "global": str(tmp_path / "global")}

    def folders(self, roots, *paths):
        found = Watched(roots, paths)
        return {os.path.relpath(folder, roots["workspace"]) for folder in found.folders}

    def test_all_folders_on_the_way(self, roots):
        assert self.folders(roots, "workspace:.halo/agents") == {".", ".halo", ".halo/agents"}

    def test_what_is_absent_is_watched_from_where_it_would_come(self, roots):
        assert self.folders(roots, "workspace:.halo/prompts/all/X.md") == {".", ".halo"}
        assert self.folders(roots, "global:USER.md") == set()  # a root that is absent is looked for

    def test_a_link_is_followed_inside_its_root_only(self, roots, tmp_path):
        (tmp_path / "ws/.halo/in").symlink_to("../shared")
        (tmp_path / "ws/.halo/out").symlink_to(tmp_path / "outside")
        found = Watched(roots, ["workspace:.halo/in/f", "workspace:.halo/out/f"])
        assert str(tmp_path / "outside") not in found.folders
        assert found.tree_paths(str(tmp_path / "ws/shared/f")) == [
            "workspace:shared/f",
            "workspace:.halo/in/f",
        ]
        assert found.outdated("workspace:.halo/in")
        assert found.outdated("workspace:.halo/out")

    def test_a_hook_is_nothing_in_a_folder(self, roots):
        assert self.folders(roots, "hook:persona") == set()

    def test_files_that_come_and_go_leave_it_as_it_is(self, roots, tmp_path):
        found = Watched(roots, ["workspace:.halo/USER.md", "workspace:.halo/prompts"])
        (tmp_path / "ws/.halo/USER.md").write_text("x")
        assert not found.outdated("workspace:.halo/USER.md")
        assert not found.outdated("workspace:.halo/unknown")
        (tmp_path / "ws/.halo/prompts").mkdir()
        assert found.outdated("workspace:.halo/prompts")

    def test_tops(self, roots):
        found = Watched(roots, ["workspace:.halo/agents/a", "workspace:shared"])
        assert found.tops == {roots["workspace"]}


def test_a_batch_is_whole_paths_and_says_what_came_or_went(tmp_path):
    notices = Notices()
    notices.open([str(tmp_path)])
    (tmp_path / "f").write_text("1")
    assert Notice(str(tmp_path / "f"), moved=True) in notices.wait(60).notices
    time.sleep(0.1)
    (tmp_path / "f").write_text("22")
    assert notices.wait(60) == Noticed({Notice(str(tmp_path / "f"), moved=False)})
    notices.close()


def test_what_was_told_of_earlier_folders_is_kept(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    notices = Notices()
    notices.open([str(tmp_path / "a")])
    (tmp_path / "a" / "f").write_text("1")
    time.sleep(0.1)
    notices.open([str(tmp_path / "b")])
    assert Notice(str(tmp_path / "a" / "f"), moved=True) in notices.wait(60).notices
    notices.close()


# Properties

_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_ASKED = st.tuples(st.sampled_from(["read", "list", "kind"]), st.one_of(st.just(""), _PATHS))


def consult(tree, asked):
    for how, path in asked:
        with suppress(TreeError):
            getattr(tree, how)(f"workspace:{path}")


def make(root, path, text):
    """Write a file, whatever is in the way; return what the system tells."""
    told = []
    place = root
    for part in path.split("/")[:-1]:
        place /= part
        if place.is_file():
            place.unlink()
            told.append(place)
        if not place.exists():
            place.mkdir()
            told.append(place)
    place = root / path
    if place.is_dir():
        shutil.rmtree(place)
        told.append(place)
    moved = not place.exists()
    place.write_text(text)
    # Of what lies in a folder that has just come, nothing has to be told.
    return told, [place] if not told and not moved else [], [place] if moved and not told else []


def remove(root, path):
    place = root / path
    if place.is_dir():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    else:
        return []
    return [place]


@st.composite
def changes(draw):
    return draw(
        st.one_of(
            st.tuples(st.just("make"), _PATHS, st.sampled_from(["x", "yy"])),
            st.tuples(st.just("remove"), _PATHS, st.just("")),
            st.tuples(st.just("rename"), _PATHS, _PATHS),
        )
    )


def do(root, change):
    """Carry out a change; return what was touched, as tree paths."""
    what, path, more = change
    moved, edited = [], []
    if what == "make":
        told, edited, new = make(root, path, more)
        moved = [*told, *new]
    elif what == "remove":
        moved = remove(root, path)
    elif (
        (root / path).exists()
        and not f"{more}/".startswith(f"{path}/")
        and not f"{path}/".startswith(f"{more}/")
    ):
        told = remove(root, more)
        above = (root / more).parent
        if above.is_dir():
            os.rename(root / path, root / more)
            moved = [*told, root / path, root / more]
        else:
            moved = told
    places = [*((p, True) for p in moved), *((p, False) for p in edited)]
    return [Touched(f"workspace:{p.relative_to(root).as_posix()}", moved) for p, moved in places]


@settings(max_examples=200)
@given(
    st.dictionaries(_PATHS, st.sampled_from(["x", "yy"]), max_size=6),
    st.lists(st.lists(_ASKED, max_size=5), min_size=1, max_size=5),
    changes(),
)
def test_whoever_is_stale_after_a_change_was_affected_by_it(tmp_path_factory, files, targets, change):
    root = tmp_path_factory.mktemp("ws")
    roots = {"workspace": str(root)}
    for path, text in files.items():
        make(root, path, text)
    now_ns = time.time_ns() + 10_000_000_000
    consulted, pointers = Consulted(), {}
    for i, asked in enumerate(targets):
        tree = RecordingTree(DiskTree(roots), lambda: now_ns)
        consult(tree, asked)
        consulted.put(str(i), tree.inputs())
        pointers[str(i)] = Pointer(1, "", SkillTarget("s"), "", "", now_ns, tree.inputs())
    touched = do(root, change)
    stale = {n for n, pointer in pointers.items() if check_inputs(pointer, roots, now_ns).reason}
    assert stale <= consulted.affected(touched)
    assert stale <= consulted.affected(consulted.unseen(roots))  # and stamps tell as much as events
    consulted.look(touched, roots)
    for name in pointers:
        consulted.drop(name)
    assert not list(consulted.paths)
    assert consulted.affected(touched) == set()


@settings(max_examples=100)
@given(st.lists(changes(), max_size=6), st.booleans())
def test_the_inventory_is_what_a_whole_survey_finds(tmp_path_factory, steps, told):
    """Directories with rules come, go and move; all of it is told, or found by looking."""
    root = tmp_path_factory.mktemp("ws")
    (root / ".halo" / "agents" / "x").mkdir(parents=True)
    nowhere = str(root / "nowhere")
    places = Places(workspace=str(root), home=nowhere, templates=nowhere, user=nowhere)
    inventory = Inventory(Builder(places))
    inventory.look_at_directories()
    inventory.look_at_names()
    for what, path, more in steps:
        rules = "/.halo/INSTRUCTIONS.md"
        touched = do(root, (what, path + (rules if what == "make" else ""), more))
        inventory.update(touched if told else inventory.unseen())
        expected = {t.name for t in default_targets(places.tree()).targets}
        assert set(inventory.targets) == expected
        assert not inventory.unseen()


def test_folders_above():
    assert list(folders_above("workspace:a/b")) == ["workspace:a", "workspace:"]
    assert list(folders_above("workspace:")) == []
