"""Bundles: the same artifacts make the same file, and only such a file is unpacked, as a whole or not at all."""

import hashlib
import io
import os
import shutil
import signal
import tarfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import agent, skill

from halo.build import bundle as bundle_file
from halo.build.builder import Builder
from halo.build.bundle import make_bundle, open_bundle, pack, read_artifacts, read_list
from halo.build.bundled import Bundle, Bundled
from halo.build.store import artifact_id
from halo.build.sweeping import carry_out, plan_sweep
from halo.build.unpacking import unpack
from halo.build.whole import survey
from halo.compiler.version import COMPILER
from halo.errors import ArtifactError, HaloError, StartError, UsageError
from halo.files.canonical import readable_json
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget
from halo.workspace.places import Places

SECRET = "hush-4711-secret"
FILES = {
    ".halo/USER.md": "USER",
    ".halo/settings.yaml": f"s: {{params: {{k: {SECRET}, p: plain}}}}",
    ".halo/agents/a/agent.yaml": agent(name="Ada", skills=["s"]),
    ".halo/agents/a/AGENT.md": "{{s.params.k}} {{s.params.p}} {{workspace_root}}",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/b/AGENT.md": "B",
    ".halo/skills/s/SKILL.md": skill("STEPS", description="does it"),
    ".halo/skills/s/config.yaml": "params: [{key: k, secret: true}, {key: p}]",
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}
NAMES = ["a/root", "a/sub", "b/root", "b/sub", "scopes/pkg", "skills/s"]


@pytest.fixture
def ws(make_workspace):
    return make_workspace(FILES).without_templates()


def packed(ws):
    builder = ws.builder
    return b"".join(pack(make_bundle(builder, survey(builder).targets), builder.store))


class Elsewhere:
    """Another machine: a home of its own, and a folder without any layer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "ws"
        self.home = folder / "home"
        (folder / "templates").mkdir(parents=True)

    def put(self, data: bytes) -> str:
        (self.folder / "x.halo.tar").write_bytes(data)
        return str(self.folder / "x.halo.tar")

    def unpack(self, data: bytes) -> Bundle:
        return unpack(self.put(data), str(self.root), str(self.home))

    @property
    def builder(self) -> Builder:
        return Builder(
            Places(str(self.root), str(self.home), str(self.folder / "templates"), str(self.folder))
        )

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.root)): p.read_bytes() for p in self.root.rglob("*") if p.is_file()}


@pytest.fixture
def elsewhere(tmp_path):
    return Elsewhere(tmp_path / "elsewhere")


class TestPacking:
    def test_every_default_target_is_in_it(self, ws, elsewhere):
        bundle = elsewhere.unpack(packed(ws))
        assert [entry.target.name for entry in bundle.targets] == NAMES

    def test_the_same_artifacts_make_the_same_bytes(self, ws, make_workspace):
        """On another day, in another folder, built in another order."""
        first = packed(ws)
        other = make_workspace(FILES).without_templates()
        other.templates = ws.templates
        for target in reversed(survey(other.builder).targets):
            other.builder.ensure(target)
        for path in other.halo.rglob("*"):
            os.utime(path, (1, 1))
        assert packed(other) == first
        assert packed(ws) == first

    def test_what_is_stale_is_built(self, ws, elsewhere):
        packed(ws)
        ws.write({".halo/USER.md": "OTHER"})
        elsewhere.unpack(packed(ws))
        assert "OTHER" in elsewhere.builder.ensure(AgentTarget("a")).prompt

    def test_one_broken_agent_and_there_is_none(self, ws):
        ws.write({".halo/agents/b/agent.yaml": "x: ["})
        with pytest.raises(HaloError, match=r"b/agent\.yaml"):
            packed(ws)

    def test_its_prompts_belong_to_one_state_of_the_layers(self, ws, monkeypatch):
        """An edit while it is made is noticed, though every artifact was fresh when it was built."""
        builder = ws.builder
        ensure = builder.ensure

        def edited(target):
            artifact = ensure(target)
            if target.name == "skills/s":
                ws.write({".halo/USER.md": "OTHER"})
            return artifact

        monkeypatch.setattr(builder, "ensure", edited)
        with pytest.raises(ArtifactError, match="changed while the bundle was made"):
            make_bundle(builder, survey(builder).targets)

    def test_it_is_an_archive_that_other_programs_read(self, ws, tmp_path):
        with tarfile.open(fileobj=io.BytesIO(packed(ws))) as archive:
            members = archive.getmembers()
            assert members[0].name == "bundle.json"
            assert {(m.mtime, m.uid, m.gid, m.mode, m.type) for m in members} == {(0, 0, 0, 0o644, b"0")}
            archive.extractall(tmp_path / "x", filter="data")
        assert {p.name for p in (tmp_path / "x" / "artifacts").iterdir()} == {
            p.name for p in (ws.halo / "artifacts").iterdir()
        }

    def test_no_secret_setting_or_place_is_in_it(self, ws):
        data = packed(ws)
        for text in (SECRET, str(ws.root), str(ws.home), "settings.yaml:", "machine"):
            assert text.encode() not in data.replace(b"workspace:.halo/settings.yaml", b"")
        assert b"plain" in data

    def test_a_damaged_artifact_is_built_anew(self, ws):
        first = packed(ws)
        for path in (ws.halo / "artifacts").rglob("prompt.md"):
            path.write_text("edited by hand")
        assert packed(ws) == first


class TestUnpacked:
    """Promise 6: what a turn puts into a prompt comes from artifacts. Here are no layers at all."""

    @pytest.fixture
    def there(self, ws, elsewhere):
        elsewhere.unpack(packed(ws))
        return elsewhere

    def test_the_artifacts_are_those_that_were_packed(self, ws, there):
        for target in survey(ws.builder).targets:
            artifact = ws.builder.ensure(target)
            assert there.builder.ensure(target) == artifact
            assert there.builder.frozen(target) == artifact
            assert there.builder.fresh(target) == artifact

    def test_only_artifacts_and_their_list_are_there(self, there):
        assert {p.name for p in (there.root / ".halo").iterdir()} == {
            ".gitignore",
            "artifacts",
            "bundle.json",
        }
        assert not (there.root / ".halo" / "build").exists()

    @pytest.mark.parametrize(
        "target",
        [AgentTarget("a", directory="pkg"), AgentTarget("default"), SkillTarget("x"), ScopeTarget("y")],
    )
    def test_nothing_else_is_compiled_from_templates_or_the_global_folder(self, there, target):
        folder = there.home / "global" / "agents" / "default"
        folder.mkdir(parents=True)
        (folder / "agent.yaml").write_text(agent())
        for ask in (there.builder.ensure, there.builder.frozen, there.builder.compile):
            with pytest.raises(HaloError, match=r"not in the bundle|unknown agent"):
                ask(target)

    def test_an_unknown_agent_is_answered_with_near_misses(self, there):
        with pytest.raises(UsageError, match="unknown agent 'A'") as error:
            there.builder.ensure(AgentTarget("A"))
        assert "a" in str(error.value.hint)

    def test_layers_that_are_put_there_change_nothing(self, there):
        before = there.builder.ensure(AgentTarget("a"))
        (there.root / ".halo" / "agents" / "a").mkdir(parents=True)
        (there.root / ".halo" / "agents" / "a" / "agent.yaml").write_text(agent(name="Eve"))
        (there.root / ".halo" / "USER.md").write_text("Eve")
        assert there.builder.ensure(AgentTarget("a")) == before
        with pytest.raises(UsageError, match="no layers to compile"):
            survey(there.builder)

    def test_a_damaged_artifact_is_refused(self, there):
        for path in (there.root / ".halo" / "artifacts").rglob("prompt.md"):
            path.write_text("edited by hand")
        with pytest.raises(ArtifactError, match="was changed after it was built"):
            there.builder.ensure(AgentTarget("a"))

    def test_unpacked_again_it_is_whole_again(self, ws, there):
        for path in (there.root / ".halo" / "artifacts").rglob("prompt.md"):
            path.write_text("edited by hand")
        there.unpack(packed(ws))
        assert there.builder.ensure(AgentTarget("a")) == ws.builder.ensure(AgentTarget("a"))

    def test_on_another_machine_it_is_not_taken_on_trust(self, there, tmp_path):
        """A clone can carry the whole folder, and no seal."""
        there.builder.ensure(AgentTarget("a"))
        (there.home / "machine.key").write_bytes(b"x" * 32)
        with pytest.raises(ArtifactError, match="not unpacked by you on this machine"):
            there.builder.ensure(AgentTarget("a"))

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text.replace('"sub"', '"root"'),
            lambda text: text.replace("halo-compiler", "halo-kompiler"),
            lambda text: "{}",
            lambda text: text[:-20],
            lambda text: "[" * 100_000,
            lambda text: text.replace('"format": 1', '"format": 2'),
        ],
    )
    def test_a_list_that_was_changed_is_refused(self, there, change):
        path = there.root / ".halo" / "bundle.json"
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before
        with pytest.raises(ArtifactError, match="not unpacked by you"):
            there.builder.ensure(AgentTarget("a"))

    @pytest.mark.parametrize("kind", ["fifo", "dir", "link"])
    def test_so_is_what_is_no_file(self, there, tmp_path, kind):
        path = there.root / ".halo" / "bundle.json"
        path.rename(tmp_path / "bundle.json")
        {
            "fifo": lambda: os.mkfifo(path),
            "dir": path.mkdir,
            "link": lambda: path.symlink_to(tmp_path / "bundle.json"),
        }[kind]()
        with pytest.raises(ArtifactError, match="not unpacked by you"):
            there.builder.ensure(AgentTarget("a"))

    def test_a_newer_one_takes_its_place_at_once(self, ws, there):
        old = there.builder.ensure(AgentTarget("a"))
        ws.write({".halo/USER.md": "NEWER"})
        shutil.rmtree(ws.halo / "agents" / "b")
        there.unpack(packed(ws))
        assert "NEWER" in there.builder.ensure(AgentTarget("a")).prompt
        with pytest.raises(UsageError, match="unknown agent 'b'"):
            there.builder.ensure(AgentTarget("b"))
        assert there.builder.store.load(old.id) == old  # a session may have it

    def test_gc_keeps_what_is_in_it(self, ws, there):
        old = there.builder.ensure(AgentTarget("a")).id
        ws.write({".halo/USER.md": "NEWER"})
        there.unpack(packed(ws))
        builder = Builder(there.builder.places, lambda: 1 << 62)
        gone = carry_out(builder, plan_sweep(builder)).artifacts
        assert old in gone
        for target in survey(ws.builder).targets:
            assert there.builder.ensure(target) == ws.builder.ensure(target)

    def test_without_a_home_to_keep_a_key_in_nothing_is_unpacked(self, ws, elsewhere):
        elsewhere.home.write_text("a file where the home would be")
        with pytest.raises(StartError, match="cannot be written"):
            elsewhere.unpack(packed(ws))


class TestWhere:
    def test_a_folder_with_layers_is_refused(self, ws, make_workspace):
        data = packed(ws)
        other = make_workspace({".halo/USER.md": "mine"})
        (other.home / "..").resolve()
        path = other.root / "x.tar"
        path.write_bytes(data)
        with pytest.raises(UsageError, match="a workspace with layers"):
            unpack(str(path), str(other.root), str(other.home))
        assert {p.name for p in other.halo.iterdir()} == {"USER.md"}

    def test_halos_home_is_refused(self, ws, tmp_path):
        path = tmp_path / "x.tar"
        path.write_bytes(packed(ws))
        with pytest.raises(UsageError, match="own home"):
            unpack(str(path), str(tmp_path), str(tmp_path / ".halo"))

    def test_links_are_not_written_through(self, ws, elsewhere, tmp_path):
        (tmp_path / "victim").mkdir()
        elsewhere.root.mkdir()
        (elsewhere.root / ".halo").symlink_to(tmp_path / "victim")
        with pytest.raises(OSError, match="a link"):
            elsewhere.unpack(packed(ws))
        (elsewhere.root / ".halo").unlink()
        (elsewhere.root / ".halo").mkdir()
        (elsewhere.root / ".halo" / "bundle.json").write_text("{}")
        (elsewhere.root / ".halo" / "artifacts").symlink_to(tmp_path / "victim")
        with pytest.raises(OSError, match="a link"):
            elsewhere.unpack(packed(ws))
        assert list((tmp_path / "victim").iterdir()) == []


def refused(elsewhere, data, message="not a whole bundle"):
    """Refused as a whole: nothing is written, not even the folder."""
    with pytest.raises(ArtifactError, match=message):
        elsewhere.unpack(data)
    assert not elsewhere.root.exists()


def members(data):
    """The (header, content) of every member."""
    found, at = [], 0
    while data[at : at + 512].strip(b"\0"):
        size = int(data[at + 124 : at + 135], 8)
        found.append((data[at : at + 512], data[at + 512 : at + 512 + size]))
        at += 512 + -(-size // 512) * 512
    return found


def member(name, content, *, kind=tarfile.REGTYPE, link="", size=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(content) if size is None else size
    info.mode = 0o644
    padding = b"\0" * (-len(content) % 512)
    form = tarfile.USTAR_FORMAT if len(name) < 100 and info.size < 1 << 33 else tarfile.GNU_FORMAT
    return info.tobuf(form) + content + padding


def joined(parts):
    return b"".join(header + content + b"\0" * (-len(content) % 512) for header, content in parts) + bytes(
        1024
    )


def bundle_of(*entries, **files):
    """A bundle that is whole, with these entries and artifact files (prompt, manifest)."""
    bundle = Bundle(1, COMPILER, tuple(entries))
    parts = [bundle_file._member("bundle.json", readable_json(bundle))]
    for name, data in files.items():
        parts.append(bundle_file._member(name, data))
    return b"".join(b"".join(part) for part in parts) + bytes(1024)


@pytest.fixture
def good(ws):
    return packed(ws)


class TestHostile:
    """What does not look exactly as Halo writes it is no bundle."""

    def test_taken_apart_and_put_together_it_is_the_same(self, good):
        """So that what follows tests what it says."""
        assert joined(members(good)) == good

    @pytest.mark.parametrize(
        "extra",
        [
            member("../evil", b"x"),
            member("/etc/evil", b"x"),
            member("artifacts/../../evil", b"x"),
            member("artifacts/x", b"", kind=tarfile.SYMTYPE, link="/etc"),
            member("artifacts/x", b"", kind=tarfile.LNKTYPE, link="bundle.json"),
            member("artifacts/x", b"", kind=tarfile.CHRTYPE),
            member("artifacts/x", b"", kind=tarfile.FIFOTYPE),
            member("artifacts", b"", kind=tarfile.DIRTYPE),
            member("artifacts/x", b"x"),
            member("x" * 300, b"x"),
            member("bundle.json", b"{}"),
            b"\0" * 512,
            b"garbage",
        ],
        ids=lambda data: hashlib.sha256(data).hexdigest()[:6],
    )
    @pytest.mark.parametrize("where", [0, 1, 2, -1])
    def test_a_member_that_does_not_belong_there(self, good, elsewhere, extra, where):
        parts = [header + content + b"\0" * (-len(content) % 512) for header, content in members(good)]
        parts.insert(where if where >= 0 else len(parts), extra)
        refused(elsewhere, b"".join(parts) + bytes(1024))

    @pytest.mark.parametrize("number", [0, 1, 2, 5])
    def test_one_that_is_missing_or_there_twice_or_elsewhere(self, good, elsewhere, number):
        parts = members(good)
        refused(elsewhere, joined(parts[:number] + parts[number + 1 :]))
        refused(elsewhere, joined([*parts[: number + 1], *parts[number:]]))
        refused(elsewhere, joined([*parts[:number], parts[number + 1], parts[number], *parts[number + 2 :]]))

    @pytest.mark.parametrize("number", [1, 2, 6])
    def test_other_content_under_the_same_id(self, good, elsewhere, number):
        parts = members(good)
        header, content = parts[number]
        parts[number] = (header, content[:-2] + b"!\n")
        refused(elsewhere, joined(parts), "not the one that its id stands for")

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(at=st.integers(0, 1 << 20), change=st.integers(1, 255))
    def test_any_byte_changed_and_any_cut(self, good, at, change, tmp_path_factory):
        """The one thing that may differ is nothing."""
        there = Elsewhere(tmp_path_factory.mktemp("x"))
        at %= len(good)
        changed = bytearray(good)
        changed[at] ^= change
        refused(there, bytes(changed), "bundle")
        refused(there, good[:at], "bundle")
        refused(there, good + good[at : at + 1], "bundle")

    def test_any_byte_of_the_list_changed(self, good, elsewhere):
        """What stands in it is held against the artifacts, or has one form alone."""
        ((_, content), *_) = members(good)
        for at in range(512, 512 + len(content)):
            changed = bytearray(good)
            changed[at] ^= 1
            refused(elsewhere, bytes(changed), "bundle")

    @pytest.mark.parametrize(
        "data", [b"", b"\0" * 1024, b"\0" * 10240, b"PK\x03\x04", b"\x1f\x8b" + b"x" * 600, b"{}"]
    )
    def test_another_file(self, elsewhere, data):
        refused(elsewhere, data)

    def test_a_size_that_is_a_lie(self, elsewhere):
        """Neither memory nor time for what a header claims."""
        refused(elsewhere, member("bundle.json", b"{}", size=8**11 - 1))
        refused(elsewhere, bundle_file._header("bundle.json", 1 << 25) + bytes(1024), "cut short")

    def test_a_file_larger_than_any_bundle(self, elsewhere):
        path = elsewhere.put(b"")
        os.truncate(path, (1 << 32) + 1)
        with pytest.raises(ArtifactError, match="at most"):
            unpack(path, str(elsewhere.root), str(elsewhere.home))

    def test_a_pipe_a_device_a_folder(self, elsewhere, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
            with pytest.raises((ArtifactError, OSError)):
                unpack(path, str(elsewhere.root), str(elsewhere.home))
        assert not elsewhere.root.exists()

    @pytest.mark.parametrize(
        "target",
        [
            AgentTarget("../../x"),
            AgentTarget("a", directory="../x"),
            SkillTarget(".."),
            ScopeTarget("/etc"),
            AgentTarget(""),
        ],
    )
    def test_targets_that_no_compiler_made(self, elsewhere, target):
        refused(elsewhere, bundle_of(Bundled(target, "0" * 40, "f")))

    def test_an_id_that_is_a_path(self, elsewhere):
        entry = Bundled(AgentTarget("a"), "../../../evil", "f")
        files = {f"artifacts/{entry.artifact}/{name}": b"{}" for name in ("manifest.json", "prompt.md")}
        refused(elsewhere, bundle_of(entry, **files))

    @pytest.mark.parametrize(
        "change",
        [
            lambda m: msgspec.structs.replace(m, format=99),
            lambda m: msgspec.structs.replace(m, runtime=None),
            lambda m: msgspec.structs.replace(m, target=AgentTarget("b")),
            lambda m: msgspec.structs.replace(m, fingerprint="other"),
            lambda m: msgspec.structs.replace(
                m, static_prefix=msgspec.structs.replace(m.static_prefix, bytes=1 << 40)
            ),
            lambda m: msgspec.structs.replace(
                m, slots=tuple(msgspec.structs.replace(s, start=-5, end=1 << 40) for s in m.slots)
            ),
            lambda m: {},
            lambda m: [],
        ],
    )
    def test_an_artifact_that_could_not_run(self, ws, elsewhere, change):
        artifact = ws.builder.ensure(AgentTarget("a"))
        for manifest, works in ((artifact.manifest, True), (change(artifact.manifest), False)):
            prompt, record = artifact.prompt.encode(), readable_json(manifest)
            identity = artifact_id(prompt, record)
            data = bundle_of(
                Bundled(AgentTarget("a"), identity, artifact.manifest.fingerprint),
                **{f"artifacts/{identity}/manifest.json": record, f"artifacts/{identity}/prompt.md": prompt},
            )
            if works:
                path = elsewhere.put(data)
                with open_bundle(path) as file:
                    assert len(list(read_artifacts(file, path, read_list(file, path)))) == 1
            else:
                refused(elsewhere, data)

    def test_a_bundle_of_a_later_format_says_so(self, elsewhere):
        data = b"".join(bundle_file._member("bundle.json", readable_json(Bundle(2, "c", ())))) + bytes(1024)
        refused(elsewhere, data, "format 2")


# Kills itself before the n-th operation that changes the disk.
DYING = """
import os, signal, sys
from halo.files import ops
left = int(sys.argv[1])
def dying(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call
for name in ("create", "write_all", "mkdir", "rename", "rename_folder", "make_dirs"):
    setattr(ops, name, dying(getattr(ops, name)))
from halo.cli.main import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("operations", [0, 2, 3, 4, 6, 9, 17, 30, 41])
def test_unpacking_that_is_killed_never_leaves_a_mixture(ws, make_workspace, operations):
    """First nothing can be used, then all of it; where an older one is, that is used to the end."""
    data = packed(ws)
    there = make_workspace({})
    shutil.rmtree(there.halo)
    (there.root / "x.tar").write_bytes(data)
    killed = there.run("-c", DYING, str(operations), "bundle", "--unpack", "x.tar")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if (there.halo / "bundle.json").exists():
        with pytest.raises(HaloError):
            there.builder.ensure(AgentTarget("a"))
        asked = there.cli("prompt", "-a", "default")
        assert (asked.returncode, asked.stdout) == (2, "")
    else:
        assert not there.halo.exists() or list(there.halo.iterdir()) == []
    assert there.cli("bundle", "--unpack", "x.tar").returncode == 0
    old = there.builder.ensure(AgentTarget("a"))
    ws.write({".halo/USER.md": "NEWER"})
    (there.root / "y.tar").write_bytes(packed(ws))
    killed = there.run("-c", DYING, str(operations), "bundle", "--unpack", "y.tar")
    found = there.builder.ensure(AgentTarget("a"))
    assert (found == old) == (killed.returncode == -signal.SIGKILL)
    for target in survey(ws.builder).targets:
        assert there.builder.ensure(target).prompt.count("NEWER") <= int(found != old)
