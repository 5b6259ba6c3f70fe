"""Ways for file tools out of the workspace, or up in it: each is tried, and leads nowhere.

What commands cannot do stands in `test_sandbox_escapes`; here it is the tools that read, list, search and
write files by themselves.
"""

import os
import socket
import sys
import threading
import time
import unicodedata
from contextlib import contextmanager, suppress

import pytest
from moments import exchange, interrupted

from halo.tools import walking
from halo.tools.base import ToolFailure
from halo.tools.toolbox import IMPLEMENTED

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, FIFOs and /proc as POSIX has them")

KEY = "sk-of-the-user"
KEPT = {
    ".halo/settings.yaml": f"openai: {{secrets: {{api_key: {KEY}}}}}\n",
    ".halo/agents/a/agent.yaml": f"tools: [file_write]  # {KEY}\n",
    ".halo/agents/a/AGENT.md": "You are a.\n",
    ".halo/skills/s/SKILL.md": "s\n",
    ".halo/skills/s/config.yaml": "params: []\n",
    ".halo/mcp.lock.json": "{}\n",
    ".halo/sessions/2026-10/s/events.jsonl": f"{KEY}\n",
    ".halo/traces/t.jsonl": f"{KEY}\n",
    ".halo/batch/b.jsonl": f"{KEY}\n",
    ".halo/evo/runs/r.md": f"{KEY}\n",
    ".halo/build/a/root.json": "{}\n",
    ".halo/artifacts/x/prompt.md": "x\n",
    ".git/config": "[core]\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
}
NEVER = (".halo/sessions/2026-10/s/events.jsonl", ".halo/traces/t.jsonl", ".halo/build/a/root.json",
         ".halo/artifacts/x/prompt.md", ".halo/batch/b.jsonl", ".halo/evo/runs/r.md")  # fmt: skip
DECIDING = (".halo/settings.yaml", ".halo/agents/a/agent.yaml", ".halo/skills/s/config.yaml",
            ".halo/mcp.lock.json", ".git/config", ".git/hooks/pre-commit")  # fmt: skip
MASKED = (".halo/settings.yaml", ".halo/sessions/2026-10/s/events.jsonl", ".halo/traces/t.jsonl",
          ".halo/batch/b.jsonl", ".halo/evo/runs/r.md")  # fmt: skip


class Yard:
    """A workspace with all that is protected, beside a folder that does not belong to it."""

    def __init__(self, bench):
        self.bench = bench
        self.root = bench.root
        self.out = bench.root.parent / "out"
        self.out.mkdir()
        (self.out / "secret").write_text(f"{KEY}\n")
        bench.write({**KEPT, "a.txt": "one\n", "d/b.txt": "two\n"})
        self.before = self.state()
        self.access("workspace")

    def access(self, access):
        self.bench.around = self.bench.around._replace(access=access)
        self.bench.toolbox._around = self.bench.around

    def state(self):
        """All that no tool may change: what is protected, and what lies outside."""
        kept = {
            name: (self.root / name).read_text()
            for name in KEPT
            if not name.endswith(("AGENT.md", "SKILL.md"))
        }
        return kept, {str(p): p.read_bytes() for p in sorted(self.out.rglob("*")) if p.is_file()}

    def writes(self, path):
        """Try to write under this name in every way; return the answers."""
        return [
            self.bench.refusal("file_write", path=path, content="mine\n"),
            self.bench.refusal("file_edit", path=path, old_string="o", new_string="mine", replace_all=True),
        ]

    def reads(self, path):
        """Try to read under this name in every way; return the answers."""
        return [
            self.bench.call("file_read", path=path).text,
            self.bench.call("grep", pattern=".", path=path).text,
            self.bench.call("file_list", path=path).text,
        ]


@pytest.fixture
def yard(bench):
    made = Yard(bench)
    yield made
    assert made.state() == made.before


def spellings(path):
    """Other names that lead to the same file, or that some file system takes for the same."""
    top, _, rest = path.partition("/")
    yield path
    yield f"./{top}//{rest}"
    yield f"d/../{path}"
    yield f"d/./..//{top}/./{rest}/"
    yield f"link/{rest}"
    yield f"up/{path}"
    yield f"up/up/{top}/{rest}"


@pytest.fixture
def linked(yard):
    """Links to what is protected."""
    os.symlink(".", yard.root / "up")
    return yard


def link(path, to):
    if path.is_symlink():
        path.unlink()
    os.symlink(to, path)


# Out of the workspace


@pytest.mark.parametrize("path", [
    "../out/secret", "d/../../out/secret", "..", "../../../../../etc/passwd", "/etc/passwd", "//etc/passwd",
    "/proc/self/root/etc/passwd", "/proc/self/cwd/a.txt", "/proc/self/environ", "/dev/null", "/dev/fd/0",
    "skill:../out/secret", "skill:notes/../../out/secret", "~/.ssh/id_rsa", "out/secret", "out", "passwd",
    "cwd/a.txt", "root/etc/passwd", "root/proc/self/environ", "fd/0", "far/out/secret", "up/../out/secret",
])  # fmt: skip
def test_nothing_outside_is_read_or_written(yard, path):
    for name, to in {"out": "../out", "passwd": "/etc/passwd", "cwd": "/proc/self/cwd", "fd": "/dev/fd",
                     "root": "/proc/self/root", "far": str(yard.root.parent), "up": "d"}.items():  # fmt: skip
        os.symlink(to, yard.root / name)
    passwd = "root:"
    for answer in (*yard.reads(path), *(() if path.startswith(("~", "up/")) else yard.writes(path))):
        assert KEY not in answer
        assert passwd not in answer


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000, "d/" * 3000 + "x"])
def test_what_is_no_path_is_answered(yard, path):
    for answer in yard.writes(path):
        assert "path" in answer


@pytest.mark.parametrize("path", ["x" * 256, "new/" + "x" * 256, "n/" * 600 + "x"])
def test_what_no_disk_takes_is_answered(yard, path):
    assert "internal error" not in yard.writes(path)[0]
    assert not (yard.root / "new").exists()


def test_a_new_name_below_a_link_is_written_where_the_link_leads_or_nowhere(yard):
    os.symlink("../out", yard.root / "leaves")
    os.symlink("d", yard.root / "stays")
    os.symlink("../out/made", yard.root / "dangling")
    for path in ("leaves/made", "leaves/made/deep", "dangling"):
        assert "leaves its root" in yard.bench.refusal("file_write", path=path, content="x")
    yard.bench.text("file_write", path="stays/made", content="x")
    assert (yard.root / "d" / "made").read_text() == "x"


def test_a_hard_link_from_outside_is_cut_loose(yard):
    """The name gets a new file; what has the other name is not changed."""
    os.link(yard.out / "secret", yard.root / "hard")
    os.link(yard.out / "secret", yard.root / "hard2")
    yard.bench.text("file_write", path="hard", content="mine\n")
    yard.bench.text("file_edit", path="hard2", old_string=KEY, new_string="mine")
    assert (yard.root / "hard").read_text() == (yard.root / "hard2").read_text() == "mine\n"


def test_a_hard_link_to_what_decides_is_cut_loose(yard):
    for name in (*DECIDING, *NEVER):
        os.link(yard.root / name, yard.root / "hard")
        yard.bench.text("file_write", path="hard", content="mine\n")
        (yard.root / "hard").unlink()


def test_what_is_no_file_neither_blocks_nor_opens(yard):
    os.mkfifo(yard.root / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(yard.root)  # the name of a socket is short
        try:
            one.bind("socket")
        finally:
            os.chdir(here)
        for path in ("fifo", "socket"):
            for answer in (*yard.reads(path)[:2], *yard.writes(path)):
                assert "neither a regular file nor a directory" in answer


# Up in the workspace


@pytest.mark.parametrize("kept", DECIDING)
def test_what_decides_is_not_written_by_any_name(linked, kept):
    link(linked.root / "link", kept.partition("/")[0])
    link(linked.root / "file", kept)
    link(linked.root / "chain", "up/file")
    for path in (*spellings(kept), f"{linked.root}/{kept}", "file", "chain", "up/chain"):
        for answer in linked.writes(path):
            assert "cannot be written at access workspace" in answer


@pytest.mark.parametrize("access", ["workspace", "full"])
@pytest.mark.parametrize("kept", NEVER)
def test_what_halo_keeps_is_not_written_at_any_access(linked, kept, access):
    linked.access(access)
    link(linked.root / "link", kept.partition("/")[0])
    link(linked.root / "file", kept)
    for path in (*spellings(kept), f"{linked.root}/{kept}", "file"):
        written, edited = linked.writes(path)
        assert "kept by Halo itself" in written
        assert "kept by Halo itself" in edited


@pytest.mark.parametrize("kept", MASKED)
def test_what_is_private_is_not_read_by_any_name(linked, kept):
    link(linked.root / "link", kept.partition("/")[0])
    link(linked.root / "file", kept)
    for path in (*spellings(kept), f"{linked.root}/{kept}", "file"):
        for answer in linked.reads(path):
            assert KEY not in answer
    assert KEY not in linked.bench.text("grep", pattern="sk-", path=".halo").replace(
        "agent.yaml:1:", "", 0
    ).replace(f"tools: [file_write]  # {KEY}", "")


@pytest.mark.parametrize("access", ["workspace", "full"])
def test_readonly_writes_nothing_at_all(yard, access):
    yard.access("readonly")
    for path in ("a.txt", "new", ".halo/USER.md", ".halo/settings.yaml"):
        for answer in yard.writes(path):
            assert "needs workspace access; this is readonly" in answer
    assert not (yard.root / "new").exists()
    yard.access(access)
    yard.bench.text("file_write", path="new", content="")


def test_full_access_may_write_settings_and_hooks(bench):
    """With your rights and without a sandbox; the records stay Halo's."""
    bench.write(KEPT)
    for path in DECIDING:
        bench.text("file_write", path=path, content="mine\n")
        assert (bench.root / path).read_text() == "mine\n"


TWINS = [
    ".HALO/settings.yaml",
    ".Halo/SETTINGS.yaml",
    ".halo./settings.yaml",
    ".halo /settings.yaml ",
    ".ha\u200dlo/settings.yaml",
    "\ufeff.halo/settings.yaml",
    ".halo/\u017fettings.yaml",
    ".halo/\uff53ettings.yaml",
    ".hal\u00ado/agents/a/agent.yaml",
    ".\u210balo/settings.yaml",
    ".GIT/hooks/pre-commit",
    ".g\u0131t/../.Git/config",
    ".gi\u200ct/hooks/post-checkout",
    ".git\ufe0f/config",
    ".\uff47it/config",
    ".git./config",
    "vendor/.git/hooks/pre-commit",
    "vendor/.halo/settings.yaml",
    ".halo/skills/s/example/.halo/agents/a/agent.yaml",
    ".halo/agents/a/AGENT.md/../agent.yaml",
]


@pytest.mark.parametrize("path", TWINS)
def test_twins_of_protected_names_are_protected(yard, path):
    """On a disk that tells no case or form, these are the same files; on others they are new ones."""
    for form in ("NFC", "NFD", "NFKD"):
        assert "cannot be written" in yard.bench.refusal(
            "file_write", path=unicodedata.normalize(form, path), content="x"
        )
    assert not (yard.root / "vendor").exists()


@pytest.mark.parametrize("path", [".halo/new/settings.yaml", ".halo/agents/evil/agent.yaml", ".git/hooks/new",
                                  ".halo/settings.yaml/x.md", ".halo/sessions/new/events.jsonl", ".halo/x"])  # fmt: skip
def test_no_folder_is_made_on_the_way_to_a_refusal(yard, path):
    assert yard.writes(path)
    for made in (".halo/new", ".halo/agents/evil", ".halo/sessions/new"):
        assert not (yard.root / made).exists()


# Links of .halo: what they lead to decides as much


@pytest.mark.parametrize(
    ("name", "to", "path"),
    [
        (".halo/settings.yaml", "../conf/halo.yaml", "conf/halo.yaml"),
        (".halo/agents", "../conf/agents", "conf/agents/a/agent.yaml"),
        (".halo/agents/a", "../../conf/a", "conf/a/agent.yaml"),
        (".halo/agents/a/agent.yaml", "../../../conf/a.yaml", "conf/a.yaml"),
        (".halo/skills/s/config.yaml", "../../../conf/s.yaml", "conf/s.yaml"),
        (".halo/models", "../conf/models", "conf/models/openai.yaml"),
        (".halo", "conf", "conf/settings.yaml"),
        (".halo", "conf", "conf/agents/a/agent.yaml"),
        (".git", "conf/git", "conf/git/hooks/pre-commit"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_what_a_link_of_halo_leads_to_is_protected(bench, name, to, path, there):
    (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(to, bench.root / name)
    if there:
        bench.write({path: "old\n"})
    for access, written in (("workspace", False), ("full", True)):
        bench.around = bench.around._replace(access=access)
        bench.toolbox._around = bench.around
        result = bench.call("file_write", path=path, content="mine\n")
        assert result.is_error is not written, result.text
        if not written:
            assert "cannot be written at access workspace" in result.text
            assert (bench.root / path).exists() == there
    bench.around = bench.around._replace(access="workspace")
    bench.toolbox._around = bench.around
    bench.text("file_write", path="conf-other/a.yaml", content="free\n")


@pytest.mark.parametrize(
    ("name", "to", "path", "linked"),
    [
        (".halo/settings.yaml", "../conf/halo.yaml", "conf/halo.yaml", ".halo/settings.yaml"),
        (".halo/sessions", "../conf/past", "conf/past/s/events.jsonl", ".halo/sessions/s/events.jsonl"),
        (".halo/evo", "../conf/evo", "conf/evo/runs/r.md", ".halo/evo/runs/r.md"),
        (".halo", "conf", "conf/settings.yaml", ".halo/settings.yaml"),
        (".halo", "conf", "conf/sessions/s/events.jsonl", ".halo/sessions/s/events.jsonl"),
    ],
)
def test_what_a_link_of_halo_leads_to_is_private(bench, name, to, path, linked):
    (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
    bench.write({path: f"{KEY}\n", "conf-other/a": "free\n"})
    os.symlink(to, bench.root / name)
    for asked in (path, linked):
        assert "kept from models" in bench.refusal("file_read", path=asked)
        assert "kept from models" in bench.refusal("grep", pattern=".", path=asked)
    assert KEY not in bench.text("grep", pattern="sk-", path="conf")
    assert bench.text("file_read", path="conf-other/a") == "1\tfree"


def test_links_in_circles_take_no_time(bench):
    bench.write({".halo/agents/a/agent.yaml": "x\n"})
    for number in range(200):
        os.symlink(".", bench.root / f".halo/round{number}")
        os.symlink("..", bench.root / f".halo/agents/back{number}")
    began = time.monotonic()
    assert "cannot be written" not in bench.text("file_write", path="a", content="")
    assert time.monotonic() - began < 5
    bench.around = bench.around._replace(access="workspace")
    bench.toolbox._around = bench.around
    path = ".halo/round1/agents/back2/round3/agents/a/agent.yaml"
    assert "cannot be written" in bench.refusal("file_write", path=path, content="")


def test_the_layers_of_a_linked_halo_are_written(bench):
    (bench.root / "conf").mkdir()
    os.symlink("conf", bench.root / ".halo")
    bench.around = bench.around._replace(access="workspace")
    bench.toolbox._around = bench.around
    bench.text("file_write", path=".halo/USER.md", content="Mira.\n")
    assert (bench.root / "conf" / "USER.md").read_text() == "Mira.\n"


# Between check and use


@contextmanager
def racing(root, *renames):
    """Rename again and again in a thread, as fast as it goes."""
    done = threading.Event()

    def run():
        while not done.is_set():
            for old, new in renames:
                try:
                    os.rename(root / old, root / new)
                except OSError:
                    continue

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def swaps(name, other):
    """Return renames by which `name` is by turns itself and `other`."""
    return ((name, "kept"), (other, name), (name, other), ("kept", name))


def rounds(yard, call, count=60):
    """Call again and again; return how often it went well."""
    return sum(not call(number).is_error for number in range(count))


@pytest.mark.parametrize(
    ("target", "below"),
    [
        (".halo", "settings.yaml"),
        (".git", "config"),
        ("../out", "secret"),
        (".halo/agents/a", "agent.yaml"),
        (".halo", "sessions/2026-10/s/events.jsonl"),
    ],
)
def test_a_folder_that_becomes_a_link_while_something_is_written(yard, target, below):
    (yard.root / "plain").mkdir()
    os.symlink(target, yard.root / "trap")
    with racing(yard.root, *swaps("plain", "trap")):
        assert rounds(
            yard, lambda n: yard.bench.call("file_write", path=f"plain/{below}", content=f"{n}\n"), 60
        )


@pytest.mark.parametrize("target", [".halo/settings.yaml", ".git/hooks/pre-commit", "../out/secret"])
def test_a_file_that_becomes_a_link_while_it_is_edited(yard, target):
    yard.bench.write({"plain": "o\n"})
    os.symlink(target, yard.root / "trap")

    def edit(_number):
        return yard.bench.call("file_edit", path="plain", old_string="o", new_string="oo", replace_all=False)

    with racing(yard.root, *swaps("plain", "trap")):
        for _ in range(40):
            edit(0)
            yard.bench.call("file_write", path="plain", content="o\n")


@pytest.mark.parametrize(
    "target", [".halo/sessions/2026-10/s/events.jsonl", ".halo/settings.yaml", "../out/secret"]
)
def test_a_file_that_becomes_a_link_while_it_is_read(yard, target):
    yard.bench.write({"plain": "free\n"})
    os.symlink(target, yard.root / "trap")
    seen = set()
    with racing(yard.root, *swaps("plain", "trap")):
        for _ in range(60):
            seen.add(yard.bench.call("file_read", path="plain").text)
    assert "1\tfree" in seen
    assert not [text for text in seen if KEY in text]


ASKED = {
    "file_write": {"content": "mine\n"},
    "file_edit": {"old_string": "o", "new_string": "mine", "replace_all": True},
    "file_read": {},
}
TRAPS = [
    ("plain/settings.yaml", ".halo"),
    ("plain/agent.yaml", ".halo/agents/a"),
    ("plain/config", ".git"),
    ("plain/secret", "../out"),
    ("plain/2026-10/s/events.jsonl", ".halo/sessions"),
    ("plain/t.jsonl", ".halo/traces"),
    ("plain", "../out/secret"),
    ("plain", ".halo/settings.yaml"),
    ("plain", ".git/hooks/pre-commit"),
]


@pytest.mark.parametrize("tool", list(ASKED))
@pytest.mark.parametrize(("path", "trap"), TRAPS)
def test_at_every_moment(yard, tool, path, trap):
    """The name is a link to what is protected at one moment of the call, and none at another."""
    yard.bench.write({path: "of the workspace, o\n"})
    os.symlink(trap, yard.root / "trap")
    swap = exchange(str(yard.root), "plain", "trap")
    told = []

    def act():
        try:
            told.append(IMPLEMENTED[tool]({"path": path, **ASKED[tool]}, yard.bench.around))
        except ToolFailure as failure:
            told.append(str(failure))

    exchanged(yard, act, swap)
    for text in told:
        assert KEY not in text.replace(f"[file_write]  # {KEY}", "")  # agent.yaml may be read


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("trap", [".halo/sessions/2026-10/s", ".halo/traces", "../out"])
def test_listings_at_every_moment(yard, trap, recursive):
    yard.bench.write({"plain/free.txt": "free\n"})
    os.symlink(trap, yard.root / "trap")
    told = []

    def act():
        with suppress(ToolFailure):
            told.append(
                IMPLEMENTED["file_list"]({"path": "plain", "recursive": recursive}, yard.bench.around)
            )

    exchanged(yard, act, exchange(str(yard.root), "plain", "trap"))
    assert set(told) == {"plain/free.txt"}


def exchanged(yard, act, swap):
    """Act with an exchange at every moment, for that one alone and for the rest of the call, from both sides."""
    calls = interrupted(act, {})
    for begun_as_link in (False, True):
        if begun_as_link:
            swap()
        for there in range(calls + 2):
            for back in (there + 1, there + 2, calls + 9):
                interrupted(act, {there: swap, back: swap})
                if (yard.root / "plain").is_symlink() != begun_as_link:
                    swap()
        assert yard.state() == yard.before


def test_a_folder_is_replaced_by_a_link_while_a_walk_runs(yard, monkeypatch):
    """What was a folder when it was listed is a link to a private one when it is entered."""
    yard.bench.write({"w/a/x": "free\n", "w/b/x": "free\n", "w/c/x": "free\n"})
    listed = walking.list_folder
    targets = iter([("b", "../.halo/sessions/2026-10/s"), ("c", "../../out")])

    def and_swap(place):
        entries = listed(place)
        if place.relative in ("w/a", "w/b"):
            name, to = next(targets)
            os.rename(yard.root / "w" / name, yard.root / f"was-{name}")
            os.symlink(to, yard.root / "w" / name)
        return entries

    monkeypatch.setattr(walking, "list_folder", and_swap)
    text = yard.bench.text("grep", pattern=".", path="w")
    assert "w/a/x:1:free" in text
    assert KEY not in text
    assert "could not be read" in text
