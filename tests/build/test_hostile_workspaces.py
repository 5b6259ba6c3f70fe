"""A workspace may come from a stranger: whatever stands where a layer may stand, commands end, and say why.

Nothing outside the roots is read, and what they leave on disk is whole. What only costs time and memory is in
`test_hostile_sizes`.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hostile import Child, Job, Said
from making import REPOSITORY, agent, skill

from halo.build.pointers import Pointers
from halo.build.store import Store
from halo.checks.checking import check
from halo.checks.subject import take
from halo.compiler.compile import compile_target
from halo.errors import HaloError
from halo.files.tree import DiskTree, NotFound
from halo.records.artifacts import Pointer
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget
from halo.workspace.demands import read_demands
from halo.workspace.settings.values import list_values

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, FIFOs and limits of POSIX")

SECRET = "hush-7c1f-secret"
SOAK = "HALO_SOAK" in os.environ

SETTINGS = """\
general:
  disabled: {agents: [worker, reviewer], skills: [agent, halo, self, skill]}
  prompt:
    context_files: [SOUL.md]
    instruction_files: {agents_md: chain, claude_md: true, gemini_md: true, cursor_rules: true, copilot: true}
  skills: {search: [.agents/skills]}
default: {params: {k: v}}
"""

# Every place where a layer may stand, and what is there in a sound workspace.
FILES = {
    ".halo/USER.md": "USER",
    ".halo/INSTRUCTIONS.md": "RULES",
    ".halo/INDEX.md": "- [a](docs/linked.md)\n",
    ".halo/SOUL.md": "SOUL",
    ".halo/settings.yaml": SETTINGS,
    ".halo/prompts/all/x.md": "ALL",
    ".halo/prompts/root/x.md": "ROOT",
    ".halo/agents/default/agent.yaml": agent(skills=["s", "t"], team=["b"], tools=["grep"]),
    ".halo/agents/default/AGENT.md": "{{default.params.k}} {{s.params.k}}",
    ".halo/agents/default/config.yaml": "params: [{key: k}]",
    ".halo/agents/default/fewshots/a.yaml": "- user: q\n- assistant: a\n",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/skills/s/SKILL.md": skill("STEPS", name="s", description="d"),
    ".halo/skills/s/config.yaml": "params: [{key: k, default: z}]",
    ".halo/skills/s/more/notes.md": "n",
    ".halo/models/openai.yaml": "name: O\nmodels: {m: {as_of: 2026-01-01, window: 1000}}\n",
    ".agents/skills/t/SKILL.md": skill("STEPS", name="t", description="d"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
    "docs/linked.md": "l",
    "docs/import.md": "IMPORT",
    "AGENTS.md": "AGENTS",
    "CLAUDE.md": "CLAUDE\n\n@docs/import.md\n",
    "GEMINI.md": "GEMINI",
    ".cursor/rules/a.mdc": "---\nalwaysApply: true\n---\nCURSOR",
    ".github/copilot-instructions.md": "COPILOT",
    ".github/instructions/a.instructions.md": '---\napplyTo: "**"\n---\nCOPILOT TOO',
    "global:agents/g/agent.yaml": agent(),
    "global:skills/gs/SKILL.md": skill("STEPS", name="gs", description="d"),
    "global:prompts/bootstrap/x.md": "BOOT",
    "secrets:settings.yaml": "default: {params: {q: zz}}",
}
FOLDERS = sorted(
    {key.rpartition("/")[0] for key in FILES if "/" in key} - {".halo"}
    | {".halo/prompts", ".halo/agents", ".halo/skills", ".agents/skills", "global:agents", "global:skills"}
)

# Where nothing has to be said: other files of a skill are listed if they are files, and a linked document is
# nothing to a build.
QUIET = {".halo/skills/s/more", ".halo/skills/s/more/notes.md", "docs/linked.md"}
# What does not concern this workspace, which has its own.
QUIET |= {"global:prompts/bootstrap", "global:prompts/bootstrap/x.md"}
# A folder that other programs keep, and one without rules: who says that a folder must be there?
OTHERS = {".agents/skills", ".agents/skills/t", ".agents", ".cursor", ".github", "pkg", "docs"}


class Place:
    """A workspace and the homes of its user, `outside` them a secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "ws"
        self.home = folder / "user" / ".halo"
        self.outside = folder / "outside"

    def path(self, key: str) -> Path:
        root, colon, relative = key.partition(":")
        if not colon:
            return self.root / key
        return {"global": self.home / "global", "secrets": self.home / "secrets"}[root] / relative

    def write(self, files):
        for key, text in files.items():
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self

    def job(self, line: str) -> Job:
        return Job(self.root, self.home, tuple(line.split()))

    def run(self, *lines: str) -> list[Said]:
        with Child() as child:
            return [child.run(self.job(line)) for line in lines]

    @contextmanager
    def damaged(self, key, put):
        """Let `put` have the place of a file or folder, which is there again afterwards."""
        path = self.path(key)
        aside = self.folder / f"aside-{key.replace('/', '-')}"
        path.rename(aside)
        try:
            put(path, aside, self.outside)
            yield
        finally:
            remove(path)
            aside.rename(path)

    def artifacts(self) -> dict[str, bytes]:
        folder = self.root / ".halo" / "artifacts"
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def assert_whole(self) -> None:
        """Every pointer that is there leads to an artifact that verifies, and nothing temporary is left."""
        halo = self.root / ".halo"
        if not (halo / "build").is_dir() or halo.is_symlink():
            return
        store = Store(str(halo))
        for target in (AgentTarget("default"), AgentTarget("b"), SkillTarget("s"), ScopeTarget("pkg")):
            pointer = Pointers(str(halo), str(self.home)).read(target)
            if isinstance(pointer, Pointer):
                assert store.load(pointer.artifact)
        assert not [*halo.rglob("*.tmp"), *halo.rglob("*.damaged*")]

    def everything_written(self) -> bytes:
        folders = [self.root / ".halo" / name for name in ("artifacts", "build", "sessions")]
        return b"".join(p.read_bytes() for f in folders if f.is_dir() for p in f.rglob("*") if p.is_file())


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A sound workspace that was built; whoever damages it mends it."""
    place = Place(tmp_path_factory.mktemp("sound")).write(FILES)
    place.outside.mkdir()
    (place.outside / "secret.md").write_text(f"{SECRET}\n")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=place.root, check=True, timeout=60)
    (said,) = place.run("build")
    assert said.code == 0, said.text
    assert "warning" not in said.text
    yield place
    (said,) = place.run("build")
    assert said.code == 0, said.text


@pytest.fixture
def copy(sound, tmp_path):
    """A copy for who leaves something behind."""
    shutil.copytree(sound.folder, tmp_path / "copy", symlinks=True)
    yield Place(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_out(path: Path, was: Path, outside: Path) -> None:
    """A link to a copy outside, which would do as a layer, with a secret in it."""
    target = outside / "copy"
    remove(target)
    shutil.copytree(was, target) if was.is_dir() else shutil.copy(was, target)
    for file in target.rglob("*") if target.is_dir() else [target]:
        if file.is_file():
            file.write_text(f"{file.read_text()}\n# {SECRET}\n")
    path.symlink_to(target)


def _link(to: str):
    return lambda path, was, outside: path.symlink_to(to or path.name)


def fifo(path: Path, was: Path, outside: Path) -> None:
    os.mkfifo(path)


def swapped(path: Path, was: Path, outside: Path) -> None:
    """A file where a folder should be, and the other way round."""
    path.write_text("x") if was.is_dir() else path.mkdir()


def gigabyte(path: Path, was: Path, outside: Path) -> None:
    """A file of 1 GB that takes no room on the disk."""
    path.touch()
    os.truncate(path, 1 << 30)


def binary(path: Path, was: Path, outside: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00\x00\x80")


DAMAGE = {
    "a link out": link_out,
    "a link to itself": _link(""),
    "a link to a device": _link("/dev/zero"),
    "a link to memory": _link("/proc/self/mem"),
    "a pipe": fifo,
    "the other kind": swapped,
    "a gigabyte": gigabyte,
    "no text": binary,
}
FILES_ONLY = {"a gigabyte", "no text"}
STEPS = {"a link out": 2}  # of all places every so many; in `doit soak` every one


def places(how: str) -> list[str]:
    keys = [*FILES] if how in FILES_ONLY else [*FILES, *FOLDERS]
    step = 1 if SOAK else STEPS.get(how, 4)
    return keys[[*DAMAGE].index(how) % step :: step]


def quiet(key: str, how: str) -> bool:
    if key in QUIET or (key in OTHERS and how != "no text"):
        return True
    # A folder called like a file is passed over where folders are listed, as everywhere.
    listed = ("prompts/all/x.md", "prompts/root/x.md", "rules/a.mdc", "a.instructions.md", "t/SKILL.md")
    if how == "the other kind" and (key.endswith(listed) or key == ".halo/skills/s"):
        return True
    # A file among the agents, such as a README, is nobody's mistake.
    if how == "the other kind" and key in (".halo/agents/default", ".halo/agents/b", "global:agents/g"):
        return True
    if how == "the other kind" and key == "global:skills/gs":
        return True
    # The loader of skills reads what is no text as far as it is.
    return how == "no text" and key.endswith("SKILL.md")


@pytest.mark.parametrize("how", DAMAGE)
def test_what_stands_in_the_place_of_a_layer(sound, how):
    """For each place: commands end with a code that is documented, the place is named, the old artifacts stay."""
    silent = []
    with Child() as child:
        for key in places(how):
            assert child.run(sound.job("build")).code == 0, key
            before = sound.artifacts()
            with sound.damaged(key, DAMAGE[how]), unopened(sound.outside):
                said = [child.run(sound.job(line)) for line in ("build", "check --global")]
                sound.assert_whole()
            text = "".join(each.text for each in said)
            assert all(each.well for each in said), (key, text)
            assert SECRET not in text, key
            assert before.items() <= sound.artifacts().items(), key
            assert SECRET.encode() not in sound.everything_written(), key
            if (key.partition(":")[2] or key) not in text and not quiet(key, how):
                silent.append(key)
    assert silent == []


LINES = (
    "prompt",
    "prompt --layers",
    "prompt --role sub --dir pkg",
    "prompt --blame",
    "prompt --fill",
    "why default RULES",
    "diff",
    "settings",
    "agent list",
    "skill list",
    "run -n hello",
    "export agents-md --dry-run",
)


def test_a_link_out_gives_nothing_away_to_any_command(sound):
    """What lies outside is not even opened, by which the kernel vouches."""
    with Child() as child:
        for key in [*FILES, *FOLDERS][:: 1 if SOAK else 4]:
            with sound.damaged(key, link_out), unopened(sound.outside):
                for line in LINES:
                    said = child.run(sound.job(line))
                    assert said.well, (key, said)
                    assert SECRET not in said.text, (key, said)
            assert SECRET.encode() not in sound.everything_written(), key


@pytest.mark.parametrize("to", ["outside", "elsewhere", ".halo"])
def test_the_folder_of_layers_itself_is_no_link(copy, to):
    """Halo writes there."""
    halo = copy.root / ".halo"
    halo.rename(copy.outside / "halo")
    halo.symlink_to(copy.outside / "halo" if to == "outside" else to)
    before = {path: path.stat().st_mtime_ns for path in copy.outside.rglob("*")}
    with unopened(copy.outside):
        for said in copy.run(
            "build", "prompt", "check", "settings", "agent list", "run -n x", "agent disable b"
        ):
            assert said.code in (1, 2), said
            assert said.well, said
    assert before == {path: path.stat().st_mtime_ns for path in copy.outside.rglob("*")}


IN_OPEN, IN_ACCESS = 0x20, 0x01


@contextmanager
def unopened(*folders):
    """See that nobody opens or reads anything below these folders meanwhile."""
    if sys.platform != "linux":
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    if descriptor < 0:
        yield
        return
    watched = {}
    try:
        for folder in folders:
            for path in (folder, *folder.rglob("*")):
                number = libc.inotify_add_watch(descriptor, os.fsencode(path), IN_OPEN | IN_ACCESS)
                watched[number] = path
        yield
        opened = set()
        try:
            while data := os.read(descriptor, 1 << 16):
                at = 0
                while at < len(data):
                    number, _, _, length = struct.unpack_from("iIII", data, at)
                    opened.add(watched.get(number))
                    at += 16 + length
        except BlockingIOError:
            pass
        assert opened == set()
    finally:
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_that_look_sees_an_open(tmp_path):
    (tmp_path / "f").write_text("x")
    with pytest.raises(AssertionError), unopened(tmp_path):
        (tmp_path / "f").read_text()


@pytest.fixture
def stranger(sound):
    """How to run as somebody whom permissions stop, and a place of theirs."""
    wrapper = ()
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(sound.folder, folder / "copy", symlinks=True)
    if os.geteuid() == 0:
        wrapper = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        reads = [sys.executable, "-c", f"import os; os.listdir({str(REPOSITORY / 'halo')!r}); import msgspec"]
        if (
            not shutil.which("setpriv")
            or subprocess.run([*wrapper, *reads], check=False, timeout=60).returncode
        ):
            pytest.skip("root is stopped by nothing, and nobody else may read this checkout")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    yield wrapper, Place(folder / "copy")
    shutil.rmtree(folder)


def test_what_may_not_be_read(stranger):
    wrapper, place = stranger
    silent = []
    with Child(wrapper=wrapper) as child:
        for key in [*FILES, *FOLDERS][:: 1 if SOAK else 3]:
            assert child.run(place.job("build")).code == 0, key
            path = place.path(key)
            mode = path.stat().st_mode
            path.chmod(0)
            said = [child.run(place.job(line)) for line in ("build", "check --global")]
            path.chmod(mode)
            text = "".join(each.text for each in said)
            assert all(each.well for each in said), (key, text)
            place.assert_whole()
            name = (key.partition(":")[2] or key).removesuffix("/.halo")
            if name not in text and key not in QUIET:
                silent.append(key)
    assert silent == []


NAMES = [
    "line\nbreak",
    "car\rriage",
    "esc\x1b[31mred",
    "bell\x07",
    "del\x7f",
    "c1\u009b31m",
    "para\u2029graph",
    "back\\slash",
    "rtl\u202eoverride",
    "zero\u200bwidth",
    "x" * 251,
    "é" * 120,
    "trailing.",
    "trailing ",
    " leading",
    "con",
    "NUL",
    "com1.x",
    "-rf",
    "--help",
    "~",
    "$HOME",
    "{{now}}",
    "<b>&amp;",
    "e\u0301",
    "\u00e9",
    "%2e%2e",
    "a:b",
    "*",
    "#",
]
BYTES = [b"\xff\xfe", b"bad\xc3", b"\xed\xa0\x80"]


def test_names_of_files_and_folders(copy):
    """As folders with rules, agents, skills, prompts and files of skills: used, or left out with a remark."""
    place = copy
    for name in [name.encode() for name in NAMES] + BYTES:
        for key, text in (
            ("{}/.halo/INSTRUCTIONS.md", "DEEP"),
            (".halo/agents/{}/agent.yaml", agent()),
            (".halo/skills/{}/SKILL.md", skill("x", name="n", description="d")),
            (".halo/prompts/all/{}.md", "PROMPT"),
            (".halo/skills/s/{}", "x"),
            (".agents/skills/{}/SKILL.md", skill("x", name="n", description="d")),
            (".cursor/rules/{}.mdc", "---\nalwaysApply: true\n---\nCURSOR"),
            (".halo/agents/default/fewshots/{}.yaml", "- user: q\n- assistant: a\n"),
        ):
            before, _, after = key.partition("{}")
            path = os.path.join(os.fsencode(place.root), before.encode() + name + after.encode())
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(text.encode())
            except OSError:
                continue  # this file system does not take the name
    lines = (
        "build",
        "build",
        "check",
        "prompt --layers",
        "agent list",
        "skill list",
        "settings",
        "diff --format md",
    )
    built, again, *others = place.run(*lines)
    for said in (built, again, *others):
        assert said.well, said
        assert not acting(said.text), said
    assert "left out" in built.text
    # Nothing that is odd about a name keeps a target from being built.
    assert "failed" not in built.text
    assert built.code == again.code == 0
    for data in place.artifacts().values():
        data.decode()
    assert {p.name for p in (place.root / ".halo" / "build" / "scopes").iterdir()}.isdisjoint(
        {"con.json", "nul.json"}
    )


def acting(text: str) -> set[str]:
    """What in a text a terminal would act upon."""
    return {
        c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2028\u2029"
    }


HOSTILE_IDS = [
    "..",
    ".",
    "../b",
    "../../outside/secret",
    "/etc/passwd",
    "C:\\x",
    "a\\b",
    "b/../b",
    "b/",
    "",
    "~",
    "b\x1b[31m",
]


class TestIdsAreNoPaths:
    @pytest.mark.parametrize(
        "line",
        [
            ["prompt", "-a", "{}"],
            ["why", "{}", "x"],
            ["prompt", "--profile", "{}"],
            ["run", "-n", "-a", "{}", "x"],
            ["run", "-s", "{}", "x"],
            ["agent", "disable", "{}"],
            ["agent", "enable", "{}"],
            ["skill", "disable", "{}"],
            ["schema", "{}"],
            ["model", "path", "{}"],
        ],
        ids=" ".join,
    )
    def test_on_the_command_line(self, sound, line):
        before = sound.artifacts()
        with Child() as child:
            for name in HOSTILE_IDS:
                if not name and ("-s" in line or "--profile" in line):
                    continue  # as if it were not given
                said = child.run(Job(sound.root, sound.home, tuple(word.format(name) for word in line)))
                assert said.code in (1, 2, 3), said
                assert said.well, said
                assert not acting(said.text) or "Usage:" in said.text, said
        assert sound.artifacts() == before

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            (".halo/agents/b/agent.yaml", "model: {{provider: openai, id: m}}\nteam: [{}]\n"),
            (".halo/agents/b/agent.yaml", "model: {{provider: openai, id: m}}\nskills: [{}]\n"),
            (".halo/agents/b/agent.yaml", "model: {{provider: openai, id: m}}\ntools: [{}]\n"),
            (".halo/agents/b/agent.yaml", "model: {{provider: {}, id: m}}\n"),
            (".halo/agents/b/agent.yaml", "model: {}\n"),
            (
                ".halo/settings.yaml",
                "general: {{models: {{aliases: {{? {} : {{provider: openai, id: m}}}}}}}}\n",
            ),
            (
                ".halo/settings.yaml",
                "general: {{models: {{profiles: {{? {} : {{default: {{provider: openai, id: m}}}}}}}}}}\n",
            ),
            (".halo/settings.yaml", "general: {{prompt: {{context_files: [{}]}}}}\n"),
            (".halo/settings.yaml", "general: {{prompt: {{time_zone: {}}}}}\n"),
            (".halo/settings.yaml", "general: {{prompt: {{persona: {}, context_files: [SOUL.md]}}}}\n"),
            (".halo/settings.yaml", "general: {{skills: {{search: [{}]}}}}\n"),
            (".halo/settings.yaml", "general: {{prompt: {{sections: [{}]}}}}\n"),
        ],
        ids=[
            "team",
            "skills",
            "tools",
            "provider",
            "alias",
            "aliases",
            "profiles",
            "context",
            "zone",
            "persona",
            "search",
            "sections",
        ],
    )
    def test_in_files(self, sound, key, text):
        """Each is refused with the file; `..` leads nowhere, whatever stands there."""
        fine = {
            "zone": {""},
            "persona": {""},
            "context_files: [{}]": {"~"},
        }  # none, and a name like any other
        plain = ".halo/agents/default/agent.yaml"

        def put(data):
            return lambda path, was, outside: path.write_text(data)

        with Child() as child, unopened(sound.outside), sound.damaged(plain, put(agent())):
            for name in [*HOSTILE_IDS, "b\0"]:
                if any(name in names for word, names in fine.items() if word in text):
                    continue
                quoted = '"' + "".join(f"\\x{ord(c):02x}" for c in name) + '"'
                with sound.damaged(key, put(text.format(quoted))):
                    said = child.run(sound.job("build"))
                assert said.code in (1, 2), (name, said)
                assert said.well, (name, said)
                assert key in said.err, (name, said)
                assert not acting(said.text), (name, said)

    def test_imports_stay_in_the_workspace(self, copy):
        place = copy
        names = [
            "../outside/secret.md",
            str(place.outside / "secret.md"),
            "~/x.md",
            "docs/../../outside/secret.md",
            "..\\outside",
            ".halo/settings.yaml",
        ]
        place.write({"CLAUDE.md": "".join(f"@{name}\n\n" for name in names)})
        with unopened(place.outside):
            (said,) = place.run("build")
        assert said.code == 0
        refused = {line.strip() for line in said.err.splitlines() if "import-refused" in line}
        assert len(refused) == 5, refused  # a backslash is no path
        assert SECRET.encode() not in place.everything_written()

    @pytest.mark.parametrize("directory", ["..", "/", "../ws/..", "pkg/../..", "nowhere", "AGENTS.md", "out"])
    def test_a_working_directory_lies_inside(self, sound, directory):
        out = sound.root / "out"
        out.symlink_to(sound.outside)
        for said in sound.run(f"prompt --dir {directory}", f"why default x --dir {directory}"):
            assert said.code == 2, said
            assert said.well
        out.unlink()


def test_nothing_of_a_stranger_acts_in_a_terminal(copy):
    """Escape sequences in keys, values, names and texts come out spelt; only a prompt is printed as it is."""
    place = copy
    evil = "\\e[2J\\e]0;owned\\a\\u009b31m\\u202e\\nhalo: all is well"
    model = "model: {provider: openai, id: m}\n"
    agents = {
        "key": f'{model}"{evil}": 1\n',
        "tool": f'{model}tools: ["{evil}"]\n',
        "member": f'{model}team: ["{evil}"]\n',
        "skill": f'{model}skills: ["{evil}"]\n',
        "name": f'{model}name: "{evil}"\ndescription: "{evil}"\nteam: [name, b]\n',
        "provider": f'model: {{provider: "{evil}", id: "{evil}"}}\n',
        "alias": f'model: "{evil}"\n',
        "model": f'model: {{provider: openai, id: "{evil}"}}\n',
        "tag": f"{model}name: !<{'x' * 10}%1b> y\n",
        "type": f'{model}context: {{"{evil}": 2}}\n',
        "window": f'{model}context: {{max_tokens: "{evil}"}}\n',
        "syntax": f'{model}name: "\x1b[2J\n',
        "body": model,
    }
    place.write({f".halo/agents/{name}/agent.yaml": text for name, text in agents.items()})
    place.write(
        {
            ".halo/agents/body/AGENT.md": "{{body.params.\x1b[2J}} \x1b[2J {{nope}} \u202e\n",
            ".halo/agents/body/config.yaml": f'params: [{{key: "{evil}", default: "{evil}"}}]\n',
            ".halo/skills/evil/SKILL.md": f'---\nname: "{evil}"\ndescription: "{evil}"\n"{evil}": 1\nallowed-tools: {{a: "{evil}"}}\n---\nx [a]({"%1b"}[2J)',
            ".halo/INDEX.md": "- [a](%1b%5B2J.md)\n- [b](\x1b[2J)\n",
            ".halo/models/anthropic.yaml": f'"{evil}": 1\n',
            "CLAUDE.md": "@docs/\x1b[2J.md\n",
        }
    )
    place.path(".halo/settings.yaml").write_text(
        SETTINGS
        + f'"{evil}": {{params: {{"{evil}": "{evil}"}}, secrets: {{"{evil}": "{evil}"}}}}\n'
        + f'body: {{params: {{"{evil}": "{evil}"}}}}\n'
    )
    lines = [
        *(
            "build",
            "check",
            "check --global --format github",
            "settings",
            "agent list",
            "skill list",
            "trust --show",
        ),
        *(f"prompt --layers -a {name}" for name in agents),
        *("why body nope", "why name owned", "prompt --blame -a name", "prompt --blame -a body", "diff"),
        *("diff --format md", "run -n -a key x", "run -n -a name x", "prompt --layers --profile nope"),
    ]
    for said in place.run(*lines):
        assert said.well, said
        assert not acting(said.text), said
        for line in said.err.splitlines():
            assert not line.startswith("halo: all is well"), said
    for settings in (
        f'general: {{"{evil}": 1}}\n',
        f'"{evil}": 1\n',
        f'default: {{"{evil}": 1}}\n',
        f'general: {{prompt: {{context_files: ["{evil}"]}}}}\n',
        f'general: {{models: {{aliases: {{"{evil}": {{provider: openai, id: m}}}}}}}}\n',
    ):
        place.write({".halo/settings.yaml": settings})
        for said in place.run("build", "check", "settings", "agent list", "agent disable b"):
            assert said.well, said
            assert said.code in (1, 2) or said.arguments[0] in ("agent", "settings"), said
            assert not acting(said.text), said


class Failing:
    """A tree whose `at`-th call is the first that meets a change: files vanish, or are folders by now."""

    def __init__(self, tree, at, how):
        self._tree = tree
        self._at = at
        self._how = how
        self.calls = 0

    def _meets(self):
        self.calls += 1
        return self.calls > self._at

    def read(self, path, limit=4 << 20):
        if self._meets():
            if self._how == "vanish":
                raise NotFound("no such file or directory", file=path)
            if self._how == "swap":
                return self._tree.read(path + "/", limit)  # malformed, as any error of a tree
            return b"\xff" if self._how == "garbage" else b""
        return self._tree.read(path, limit)

    def list(self, path):
        if self._meets():
            if self._how in ("vanish", "swap"):
                raise NotFound("no such file or directory", file=path)
            return ()
        return self._tree.list(path)

    def kind(self, path):
        if self._meets():
            return {"vanish": "absent", "swap": "dir", "garbage": "file", "empty": "other"}[self._how]
        return self._tree.kind(path)


TARGETS = [AgentTarget("default"), AgentTarget("default", "sub", "pkg"), SkillTarget("s"), ScopeTarget("pkg")]


@pytest.mark.parametrize("how", ["vanish", "swap", "garbage", "empty"])
def test_what_changes_between_two_looks_is_an_error_or_an_answer(sound, how):
    """At each call of the tree: the rest of the compile, of a survey, of the settings sees another disk."""
    disk = DiskTree(
        {
            "workspace": str(sound.root),
            "global": str(sound.home / "global"),
            "secrets": str(sound.home / "secrets"),
        }
    )
    actions = [lambda tree, t=target: compile_target(tree, t) for target in TARGETS]
    actions += [list_values, read_demands]
    for action in actions:
        at, calls = 0, 1
        while at < calls:
            tree = Failing(disk, at, how)
            with suppress(HaloError):  # anything else is a fault
                action(tree)
            calls = tree.calls
            at += 1
    # A whole check makes thousands of calls: a sample of them.
    for at in range(0, 600, 59):
        with suppress(HaloError):
            check(take(Failing(disk, at, how)))
