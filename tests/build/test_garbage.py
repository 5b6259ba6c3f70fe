"""`halo gc`: what nothing refers to goes, and nothing else; in doubt everything stays."""

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, skill

from halo.build.builder import Builder
from halo.build.garbage import YOUNG_NS, Found, Item, Mentions, decide, is_old, leftover_of
from halo.build.inspection import inspect
from halo.build.sweeping import carry_out, plan_sweep, sweep_lock
from halo.build.whole import survey
from halo.errors import ArtifactError, BusyError, LayerError
from halo.files import ops
from halo.files.atomic import publish_folder, replace_file
from halo.files.log import encode_line
from halo.records.events import TurnStarted
from halo.records.session_events import SessionCreated, SessionTarget
from halo.records.targets import AgentTarget
from halo.sessions.folder import SessionFolder

TARGET = AgentTarget("a")
ID = "3f2c91a07be4d85610cc2e9b7fa1d4408e6b5c93"
OTHER = "b80e4d17c2a96f3350e1f7d2846ac0b95d1e7f24"
FILES = {
    ".halo/USER.md": "USER",
    ".halo/agents/a/agent.yaml": agent(name="Ada", skills=["s"]),
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/b/AGENT.md": "B\n",
    ".halo/skills/s/SKILL.md": skill("STEPS"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}
HOURS_NS = 2 * 3_600_000_000_000


def mentioned(*blocks, ids=(ID, OTHER)):
    mentions = Mentions(ids)
    mentions.read(blocks)
    return mentions.found


class TestMentions:
    """Whatever looks like a reference is one."""

    @pytest.mark.parametrize(
        "text",
        [
            f'{{"artifact":"{ID}"}}',
            f"artifacts/{ID}/prompt.md",
            f"built   a/root  {ID[:12]}  97 tokens",
            f'{{"artifact":"{ID[:20]}',  # a torn line
            f'{ID[-15:]}","fingerprint":""}}',  # what is left of one
            ID[:10] + "#" + ID[11:],  # a flipped bit near the beginning
            ID[:30] + "\0" + ID[31:],  # and near the end
            "a" + ID + "f",  # a flipped quotation mark
            "0" * 300 + ID + "0" * 300,
        ],
    )
    def test_an_id_or_the_beginning_or_end_of_one(self, text):
        assert mentioned(text.encode()) == {ID}

    @pytest.mark.parametrize("text", ["", ID[:11], ID.upper(), ID[5:35], "é" + ID[:11] + "x", OTHER[1:-1]])
    def test_less_is_none(self, text):
        assert mentioned(text.encode()) == set()

    def test_a_sha256_is_no_id_whatever_it_holds(self):
        digest = (ID + OTHER)[:64]
        assert mentioned(f'"{digest}"'.encode()) == set()
        assert mentioned(f'"{digest[1:]}"'.encode()) == {ID, OTHER}

    @given(st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(0, 700), max_size=8))
    def test_wherever_it_stands_and_however_it_is_read(self, before, after, cuts):
        data = before + ID.encode() + after
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        assert ID in mentioned(*(data[a:b] for a, b in itertools.pairwise(edges)))

    @given(st.integers(0, 700), st.integers(1, 500))
    def test_in_a_run_of_digits_that_does_not_end(self, at, step):
        data = b"7" * at + ID.encode() + b"7" * 700
        assert ID in mentioned(*(data[i : i + step] for i in range(0, len(data), step)))


class TestDeciding:
    NOW = 10 * YOUNG_NS

    def plan(self, *, used_ns=0, mentions=(), unread=()):
        found = Found({ID: Item("x", 5, used_ns)}, leftovers=(Item("y", 7, used_ns),))
        return decide(found, set(mentions), unread, self.NOW)

    def test_what_is_old_and_mentioned_nowhere_goes(self):
        plan = self.plan()
        assert (set(plan.artifacts), plan.kept, plan.bytes) == ({ID}, (), 12)

    def test_what_is_mentioned_stays(self):
        plan = self.plan(mentions=[ID])
        assert (plan.artifacts, plan.kept, plan.mentioned, plan.young) == ({}, (ID,), 1, 0)

    @pytest.mark.parametrize("used_ns", [NOW, NOW - YOUNG_NS, NOW + 1, 2 * NOW])
    def test_what_is_young_stays_and_so_does_what_is_of_the_future(self, used_ns):
        """A build may be about to write its pointer; clocks are set back."""
        plan = self.plan(used_ns=used_ns)
        assert (plan.artifacts, plan.leftovers, plan.kept, plan.young) == ({}, (), (ID,), 1)
        assert not is_old(used_ns, self.NOW)

    def test_where_something_cannot_be_read_every_artifact_stays(self):
        """It may refer to anything. Leftovers are no artifacts."""
        plan = self.plan(unread=["sessions/x: permission denied"])
        assert (plan.artifacts, plan.kept, len(plan.leftovers)) == ({}, (ID,), 1)

    @pytest.mark.parametrize(
        ("name", "of"),
        [
            (f".{ID}.77-0123456789ab.tmp", ID),
            (f"{ID}.damaged.77", ID),
            (".root.json.1-0123456789ab.tmp", "root.json"),
            (".x.tmp", None),
            ("x.1-0123456789ab.tmp", None),
            (f".{ID}.77-0123456789ab.tmp~", None),
            (f"{ID}.damaged.", None),
            (f"{ID}.damaged.7.bak", None),
            ("", None),
        ],
    )
    def test_a_leftover_is_told_by_its_name(self, name, of):
        assert leftover_of(name) == of

    def test_the_names_are_those_that_are_written(self, tmp_path, monkeypatch):
        """`halo.files.atomic` is the only one who writes such names."""
        names = []
        monkeypatch.setattr(ops, "rename", lambda a, b: names.append(os.path.basename(a)))
        monkeypatch.setattr(ops, "rename_folder", lambda a, b: names.append(os.path.basename(a)))
        for name in ("x", "long" * 50, ID):
            replace_file(str(tmp_path / name), b"")
            publish_folder(str(tmp_path / "folders" / name), {"f": b""})
            assert [leftover_of(n) for n in names[-2:]] == [name[:40]] * 2


@pytest.fixture
def ws(make_workspace):
    """A built workspace, looked at two hours later."""
    made = make_workspace(FILES).without_templates()
    build(made)
    made.ahead_ns = HOURS_NS
    return made


def build(ws):
    for target in survey(ws.builder).targets:
        ws.builder.ensure(target)
    inspect(ws.builder).finish()


def gc(ws):
    plan = carry_out(ws.builder, plan_sweep(ws.builder))
    assert everything_is_usable(ws)
    return plan


def everything_is_usable(ws):
    return all(ws.builder.status(target).artifact for target in survey(ws.builder).targets)


def ids(ws):
    return {p.name for p in (ws.halo / "artifacts").iterdir()}


def replaced(ws):
    """The artifacts of `a` that an edit has replaced: unused from now on."""
    before = {ws.builder.ensure(AgentTarget("a", role)).id for role in ("root", "sub")}
    ws.write({".halo/agents/a/AGENT.md": "Other.\n"})
    build(ws)
    return before


def session(ws, *records, name="20261002t143012-7k3f9q"):
    """A session with these lines; `records` are events or bytes that stand there as they are."""
    folder = SessionFolder(str(ws.halo / "sessions"), name)
    if records and not isinstance(records[0], bytes):
        with folder.open(time.time_ns, create=True) as opened:
            for record in records:
                opened.append(record, turn=1)
    else:
        os.makedirs(folder.path, exist_ok=True)
        with open(folder.events, "wb") as file:
            file.writelines(records)
    return folder


class TestWhatGoes:
    def test_after_a_build_nothing(self, ws):
        plan = gc(ws)
        assert (plan.artifacts, plan.orphans, plan.leftovers, plan.strange) == ({}, (), (), ())
        assert set(plan.kept) == ids(ws)

    def test_what_an_edit_replaced(self, ws):
        old = replaced(ws)
        assert set(gc(ws).artifacts) == old
        assert not old & ids(ws)

    def test_what_belonged_to_an_agent_that_was_removed(self, ws):
        gone = {ws.builder.ensure(AgentTarget("b", role)).id for role in ("root", "sub")}
        shutil.rmtree(ws.halo / "agents" / "b")
        (ws.halo / "build" / "b" / "root.gate").write_text("a gate")
        plan = plan_sweep(ws.builder)
        assert set(plan.artifacts) == gone
        orphans = {os.path.relpath(item.path, ws.halo) for item in plan.orphans}
        assert orphans == {"build/b/root.json", "build/b/sub.json", "build/b/root.gate"}
        carry_out(ws.builder, plan)
        assert not (ws.halo / "build" / "b" / "root.json").exists()
        ws.ahead_ns *= 2  # the folder itself has just been changed
        gc(ws)
        assert not (ws.halo / "build" / "b").exists()

    def test_a_plan_alone_changes_nothing(self, ws):
        replaced(ws)
        shutil.rmtree(ws.halo / "agents" / "b")
        before = {p: p.stat().st_mtime_ns for p in ws.halo.rglob("*")}
        assert plan_sweep(ws.builder).artifacts
        assert {p: p.stat().st_mtime_ns for p in ws.halo.rglob("*")} == before

    def test_what_is_gone_is_counted(self, ws):
        old = replaced(ws)
        size = sum(f.stat().st_size for i in old for f in (ws.halo / "artifacts" / i).iterdir())
        assert gc(ws).bytes == size > 1000

    def test_targets_on_request_stay_while_their_agent_exists(self, ws):
        artifact = ws.builder.ensure(AgentTarget("b", directory="pkg"))
        gc(ws)
        assert artifact.id in ids(ws)

    def test_the_last_good_artifact_of_a_broken_agent_stays(self, ws):
        before = ids(ws)
        ws.write({".halo/agents/a/agent.yaml": "x: ["})
        with pytest.raises(LayerError):
            ws.builder.ensure(TARGET)
        carry_out(ws.builder, plan_sweep(ws.builder))
        assert ids(ws) == before

    def test_settings_that_cannot_be_read_stop_it(self, ws):
        """They say which targets there are."""
        replaced(ws)
        before = ids(ws)
        ws.write({".halo/settings.yaml": "general: ["})
        with pytest.raises(LayerError):
            plan_sweep(ws.builder)
        assert ids(ws) == before


CREATED = SessionCreated("20261002t143012-7k3f9q", SessionTarget("agent", "a"), "cli")


class TestSessions:
    """What a turn ran from can be looked at for as long as its session is there."""

    def test_artifacts_skills_and_scopes_of_a_turn_stay(self, ws):
        one, two = sorted(replaced(ws))
        skills = ws.builder.ensure(survey(ws.builder).targets[-1]).id
        ws.write({".halo/skills/s/SKILL.md": skill("NEW")})
        build(ws)
        session(ws, CREATED, TurnStarted(one, "f", skills={"s": skills}, scopes={"pkg": two}))
        assert gc(ws).artifacts == {}
        shutil.rmtree(ws.halo / "sessions")
        assert set(gc(ws).artifacts) == {one, two, skills}

    def test_a_turn_whose_record_is_an_attachment(self, ws):
        one, two = sorted(replaced(ws))
        scopes = {f"{'d' * 80}{i}": two for i in range(1000)}
        folder = session(ws, CREATED, TurnStarted(one, "f", scopes=scopes))
        with open(folder.events, "rb") as file:
            assert one.encode() not in file.read()
        assert gc(ws).artifacts == {}

    @pytest.mark.parametrize(
        "damage",
        [
            lambda line: line,  # unsealed: it came with the folder
            lambda line: line[:-5],  # torn
            lambda line: line.replace(b'"turn"', b'"tarn"'),  # a wrong sum
            lambda line: line[: line.index(b'","fingerprint"') - 10],  # torn within the id
            lambda line: line[line.index(b'"artifact"') + 30 :],
            lambda line: line.replace(b'"format":1', b'"format":99'),
            lambda line: b"\0" * 4096 + line + b"\xff\xfe",
            lambda line: line.replace(b"\n", b" ") * 3,
        ],
    )
    def test_damaged_ones_keep_what_they_seem_to_mention(self, ws, damage):
        old = replaced(ws)
        record = b'{"format":1,"seq":1,"ts":"x","type":"turn.started","turn":1,"data":{"artifact":"%b","fingerprint":""}}'
        session(ws, *(damage(encode_line(record % identity.encode())) for identity in old))
        assert gc(ws).artifacts == {}

    def test_a_session_that_cannot_be_reached_keeps_everything(self, ws, tmp_path):
        """A link may lead to where sessions are; it is not followed, and so nobody knows."""
        replaced(ws)
        (tmp_path / "elsewhere").mkdir()
        (ws.halo / "sessions").mkdir()
        (ws.halo / "sessions" / "2026-10").symlink_to(tmp_path / "elsewhere")
        plan = gc(ws)
        assert plan.artifacts == {}
        assert "2026-10" in plan.unread[0]

    def test_folders_as_deep_as_they_come(self, ws):
        """Too deep to be named from above: nobody knows what stands there."""
        replaced(ws)
        for start in (ws.halo / "sessions", ws.halo / "build" / "deep"):
            start.mkdir()
            here = os.open(start, os.O_RDONLY)
            for _ in range(2500):
                os.mkdir("d", dir_fd=here)
                there = os.open("d", os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = there
            os.close(here)
            try:
                plan = plan_sweep(ws.builder)
                assert plan.artifacts == {}
                assert "File name too long" in plan.unread[0]
            except OSError as error:
                assert error.errno == errno.ENAMETOOLONG  # noqa: PT017  # of the folder that it looks through
            finally:
                subprocess.run(["rm", "-rf", start], check=True)
        assert gc(ws).artifacts

    def test_nor_is_a_pipe_waited_for(self, ws):
        replaced(ws)
        (ws.halo / "sessions").mkdir()
        os.mkfifo(ws.halo / "sessions" / "events.jsonl")
        assert gc(ws).artifacts == {}

    def test_a_disk_that_fails_keeps_everything(self, ws, monkeypatch):
        replaced(ws)
        folder = session(ws, CREATED)
        real = os.open

        def failing(path, *rest, **options):
            if path == folder.events:
                raise OSError(5, "Input/output error", path)
            return real(path, *rest, **options)

        monkeypatch.setattr(os, "open", failing)
        plan = gc(ws)
        assert plan.artifacts == {}
        assert "Input/output error" in plan.unread[0]

    @pytest.mark.parametrize(
        "place", ["evo/runs/7/run.json", "evo/history/x.json", "batch/1/cases/c.json", "traces/t.jsonl"]
    )
    def test_runs_and_batches_keep_what_they_mention(self, ws, place):
        one, two = replaced(ws)
        path = ws.halo / place
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"tried": [{"artifact": one}], "short": two[:12]}))
        assert gc(ws).artifacts == {}

    def test_a_gate_that_is_out_of_date_keeps_nothing(self, ws):
        """Gates follow from pointers."""
        old = replaced(ws)
        (ws.halo / "build" / "gate.txt").write_text("\n".join(old))
        (ws.halo / "build" / "a" / "old.gate").write_text("\n".join(old))
        assert set(gc(ws).artifacts) == old


class TestLeftovers:
    def leave(self, ws, name, *files):
        folder = ws.halo / "artifacts" / name
        folder.mkdir()
        for file in files:
            (folder / file).write_text("half")
        return folder

    def test_of_killed_builds_go_when_they_are_old(self, ws):
        left = [
            self.leave(ws, f".{ID}.77-0123456789ab.tmp"),
            self.leave(ws, f".{OTHER}.77-0123456789ab.tmp", "prompt.md"),
            self.leave(ws, f"{ID}.damaged.77", "prompt.md", "manifest.json"),
            ws.halo / "build" / "a" / ".root.json.1-0123456789ab.tmp",
            ws.halo / ".settings.yaml.1-0123456789ab.tmp",
        ]
        for path in left[3:]:
            path.write_text("half")
        ws.ahead_ns = 0
        assert gc(ws).leftovers == ()
        ws.ahead_ns = HOURS_NS
        assert {item.path for item in gc(ws).leftovers} == {str(path) for path in left}
        assert not any(path.exists() for path in left)

    def test_real_ones(self, ws):
        """A build that is killed between the files of an artifact."""
        for path in (ws.halo / "artifacts").iterdir():
            shutil.rmtree(path)
        killed = ws.run("-c", DYING, "write_all", "1", "build")
        assert killed.returncode == -signal.SIGKILL
        left = {name for name in ids(ws) if name.startswith(".")}
        assert left
        ws.ahead_ns = 0
        build(ws)
        ws.ahead_ns = HOURS_NS
        gc(ws)
        assert not any(name.startswith(".") for name in ids(ws))

    def test_what_halo_did_not_make_is_left_and_said(self, ws, tmp_path):
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "prompt.md").write_text("mine")
        (victim / "manifest.json").write_text("mine")
        folder = ws.halo / "artifacts"
        (folder / OTHER).symlink_to(victim)
        (folder / f".{OTHER}.1-0123456789ab.tmp").symlink_to(victim)
        more = self.leave(ws, ID, "prompt.md", "manifest.json", "notes.txt")
        strange = [more, self.leave(ws, "mine", "prompt.md"), self.leave(ws, ID[:-1] + "8", "manifest.json")]
        within = self.leave(ws, ID[:-1] + "9", "prompt.md")
        (within / "manifest.json").mkdir()
        (within / "manifest.json" / "x").write_text("")
        (folder / "README").write_text("mine")
        inside = self.leave(ws, f".{ID}.1-0123456789ab.tmp", "prompt.md", "mine.txt")
        plan = gc(ws)
        assert plan.artifacts == {}
        assert plan.leftovers == ()
        assert {os.path.basename(path) for path in plan.strange} == {
            OTHER,
            f".{OTHER}.1-0123456789ab.tmp",
            within.name,
            "README",
            inside.name,
            *(path.name for path in strange),
        }
        assert (victim / "prompt.md").read_text() == "mine"
        assert (more / "notes.txt").exists()
        assert (inside / "mine.txt").exists()

    @pytest.mark.parametrize("name", ["artifacts", "build"])
    def test_a_link_in_the_place_of_halos_folders_is_refused(self, ws, tmp_path, name):
        (ws.halo / name).rename(tmp_path / "moved")
        (ws.halo / name).symlink_to(tmp_path / "moved")
        with pytest.raises(OSError, match="a link where Halo keeps its own files"):
            plan_sweep(ws.builder)

    def test_a_link_in_the_place_of_its_lock_too(self, ws, tmp_path):
        (tmp_path / "file").write_text("mine")
        (ws.halo / "build" / "gc.lock").symlink_to(tmp_path / "file")
        with pytest.raises(OSError, match="a link"):
            sweep_lock(ws.builder)
        assert (tmp_path / "file").read_text() == "mine"


class TestMeanwhile:
    """What comes into use while it is swept is not lost."""

    @pytest.fixture
    def planned(self, ws):
        """Two artifacts of `a` are about to go; the clock runs as it does, so what is used now is young."""
        old = replaced(ws)
        ws.ahead_ns = 0
        age(ws)
        plan = plan_sweep(ws.builder)
        assert set(plan.artifacts) == old
        return ws, plan

    def test_an_artifact_that_a_build_finds_there(self, planned):
        ws, plan = planned
        (ws.halo / "agents" / "a" / "AGENT.md").unlink()  # the edit is taken back
        artifact = ws.builder.ensure(TARGET)
        assert artifact.id in plan.artifacts
        assert artifact.id not in carry_out(ws.builder, plan).artifacts
        assert ws.builder.frozen(TARGET) == artifact

    def test_one_that_a_turn_has_taken(self, planned):
        """It was fresh when the turn began; the pointer has moved on since."""
        ws, plan = planned
        (taken,) = list(plan.artifacts)[:1]
        assert ws.builder.store.keep(taken)
        assert taken not in carry_out(ws.builder, plan).artifacts
        assert ws.builder.store.load(taken).id == taken

    def test_one_that_is_marked_at_the_very_last_moment(self, planned, monkeypatch):
        ws, plan = planned
        real = os.rename

        def marked(source, target):
            os.utime(source)
            real(source, target)

        monkeypatch.setattr(os, "rename", marked)
        assert carry_out(ws.builder, plan).artifacts == {}
        monkeypatch.undo()
        assert all(ws.builder.store.load(identity) for identity in plan.artifacts)

    def test_one_that_is_published_anew_while_it_is_out_of_the_way(self, planned, monkeypatch):
        ws, plan = planned
        kept = {identity: ws.builder.store.load(identity) for identity in plan.artifacts}
        real = os.rename

        def renamed(source, target):
            real(source, target)
            identity = os.path.basename(source)
            if identity in kept:
                os.utime(target)
                ws.builder.store.add(kept[identity].prompt, kept[identity].manifest)

        monkeypatch.setattr(os, "rename", renamed)
        carry_out(ws.builder, plan)
        monkeypatch.undo()
        assert all(ws.builder.store.load(identity) for identity in plan.artifacts)
        assert not [name for name in ids(ws) if name.startswith(".")]

    def test_an_artifact_that_is_gone_when_it_is_taken_is_made_again(self, ws, monkeypatch):
        """The sweep was between the two looks of a builder."""
        expected = ws.builder.ensure(TARGET)
        builder = ws.builder
        status = builder.status

        def swept(target):
            found = status(target)
            shutil.rmtree(ws.halo / "artifacts" / expected.id, ignore_errors=True)
            return found

        monkeypatch.setattr(builder, "status", swept)
        with pytest.raises(ArtifactError, match="just removed"):
            builder.frozen(TARGET)
        assert builder.ensure(TARGET) == expected
        assert ws.builder.store.load(expected.id) == expected

    def test_there_is_one_sweep_at_a_time(self, ws):
        with sweep_lock(ws.builder), pytest.raises(BusyError, match="halo gc in this workspace"):
            sweep_lock(ws.builder).acquire()


def age(ws):
    """Make all artifacts two hours old."""
    stamp = time.time_ns() - HOURS_NS
    for path in (ws.halo / "artifacts").rglob("*"):
        os.utime(path, ns=(stamp, stamp))
    for path in (ws.halo / "artifacts").iterdir():
        os.utime(path, ns=(stamp, stamp))


# Runs a command, and kills itself before the n-th call of one of these functions.
DYING = """
import os, signal, sys
from halo.files import ops
names, left = sys.argv[1].split(","), int(sys.argv[2])
def dying(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call
for name in names:
    place = ops if hasattr(ops, name) else os
    setattr(place, name, dying(getattr(place, name)))
from halo.cli.main import run
sys.exit(run(sys.argv[3:]))
"""


class TestProcesses:
    def test_a_sweep_that_is_killed_anywhere_loses_nothing(self, make_workspace):
        """Not even an artifact that came into use and was about to be put back."""
        ws = make_workspace(FILES)
        ws.cli("build")
        old = ws.builder.ensure(TARGET).id
        ws.write({".halo/agents/a/AGENT.md": "Other.\n"})
        ws.cli("build")
        session(ws, CREATED, TurnStarted(old, "f"))
        for left in range(12):
            ws.write({".halo/agents/b/AGENT.md": f"Version {left}.\n"})
            for target in survey(ws.builder).targets:
                ws.builder.ensure(target)
            age(ws)
            done = ws.run("-c", DYING, "rename,unlink,rmdir", str(left), "gc", HALO_CACHE=str(ws.home / "c"))
            assert done.returncode in (0, -signal.SIGKILL), done.stderr
            assert ws.cli("build").stderr == ""
            assert ws.builder.store.load(old)
        age(ws)
        for path in (ws.halo / "artifacts").iterdir():
            assert path.stat().st_mtime < time.time() - 3600
        assert ws.cli("gc", HALO_CACHE=str(ws.home / "c")).returncode == 0
        assert not [name for name in ids(ws) if name.startswith(".")]
        assert ws.builder.store.load(old)

    def test_an_artifact_in_use_that_a_killed_sweep_left_aside_is_put_back(self, ws):
        identity = ws.builder.ensure(TARGET).id
        folder = ws.halo / "artifacts"
        (folder / identity).rename(folder / f".{identity}.1-0123456789ab.tmp")
        plan = carry_out(ws.builder, plan_sweep(ws.builder))
        assert plan.leftovers == ()
        assert ws.builder.frozen(TARGET).id == identity

    def test_builds_and_turns_go_on_while_everything_is_swept_again_and_again(self, make_workspace):
        """A layer goes back and forth, so that what is built is always something that was just unused and old."""
        ws = make_workspace(FILES)
        ws.cli("build")
        command = [sys.executable, "-c", BUILDING, "20" if "HALO_SOAK" in os.environ else "2", str(ws.root)]
        environ = ws.environ(HALO_CACHE=str(ws.home / "cache"))
        building = [
            subprocess.Popen(
                [*command, str(number)], env=environ, cwd=ws.root, stderr=subprocess.PIPE, text=True
            )
            for number in range(2)
        ]
        removed = 0
        while any(process.poll() is None for process in building):
            removed += sweep_once(ws)
        for process in building:
            assert process.wait() == 0, process.stderr.read()
            process.stderr.close()
        assert removed > 0  # otherwise nothing was put to the test


def sweep_once(ws):
    builder = Builder(ws.places)
    try:
        return len(carry_out(builder, plan_sweep(builder)).artifacts)
    except FileNotFoundError as error:  # a folder that a build has just renamed
        raise AssertionError(error) from error


# Three texts of one agent, back and forth, and other ones after a while. What has just been replaced is made old,
# so that what is built is often what is being swept. Some are taken as a turn takes them and written down a
# little later: these must be there for ever.
BUILDING = """
import os, random, sys, time
from halo.build.builder import Builder
from halo.records.events import TurnStarted
from halo.records.targets import AgentTarget
from halo.sessions.folder import SessionFolder
from halo.workspace.places import find_places
seconds, root, number = sys.argv[1:]
random.seed(number)
builder = Builder(find_places(root, os.environ))
agent = "a" if number == "0" else "b"
path = os.path.join(root, ".halo", "agents", agent, "AGENT.md")
target = AgentTarget(agent)
sessions = os.path.join(root, ".halo", "sessions")
end, step, taken, before = time.monotonic() + float(seconds), 0, set(), None
while time.monotonic() < end or step < 60 or not taken:
    step += 1
    with open(path + "~", "w") as file:
        file.write(f"Text {step // 50}.{random.randrange(3)}\\n")
    os.replace(path + "~", path)
    artifact = builder.ensure(target)
    assert builder.store.load(artifact.id) == artifact, "lost at once"
    if random.random() < 0.05:
        with open(path + "~", "w") as file:
            file.write(f"Something else {step}\\n")
        os.replace(path + "~", path)
        builder.ensure(target)
        time.sleep(0.05 * random.random())
        name = f"20261002t{step:06}-{'abcdef' if number == '0' else 'ghijkl'}"
        with SessionFolder(sessions, name).open(time.time_ns, create=True) as log:
            log.append(TurnStarted(artifact.id, "f"), turn=1)
        assert builder.store.load(artifact.id) == artifact, "lost before it was written down"
        taken.add(artifact.id)
        before = None
        continue
    if before not in (None, artifact.id, *taken):
        folder = os.path.join(builder.store.folder, before)
        try:
            for place in (*(os.path.join(folder, name) for name in os.listdir(folder)), folder):
                os.utime(place, (time.time() - 7200,) * 2)
        except FileNotFoundError:
            pass  # swept already
    before = artifact.id
    time.sleep(0.01 * random.random())
    assert builder.status(target).artifact == artifact, "lost while the pointer led to it"
for identity in taken:
    assert builder.store.load(identity).id == identity, "lost though a session has it"
"""
