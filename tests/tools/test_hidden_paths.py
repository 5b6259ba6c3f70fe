"""What `general.tools.hidden` names is kept from every tool that opens files, by whatever name."""

import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_specs import SPECS

from halo.files.roots import ConfinedRoot
from halo.records.messages import ToolCall
from halo.tools.base import Surroundings
from halo.tools.hidden import hidden_below
from halo.tools.masks import hides, masked
from halo.tools.sandbox.memory import MemoryFiles
from halo.tools.toolbox import Toolbox

FILES = {
    "private/p.txt": "needle 1\n",
    "private/deep/er/q.txt": "needle 2\n",
    "notes/key.txt": "needle 3\n",
    "notes/open.txt": "needle 4\n",
    "private.txt": "needle 5\n",
}


@pytest.fixture
def hiding(bench):
    """Hide paths: `hiding("private", ...)`."""
    bench.write(FILES)
    bench.write({"private/x.png": b"\x89PNG\r\n\x1a\n"})

    def hide(*paths):
        bench.around = bench.around._replace(hidden=paths)
        bench.toolbox = Toolbox(SPECS, bench.around)
        return bench

    return hide


def refused(bench, path):
    """Every tool that opens files refuses it, and says why."""
    for name, arguments in (
        ("file_read", {}),
        ("view_image", {}),
        ("file_write", {"content": "x"}),
        ("file_edit", {"old_string": "needle", "new_string": "x"}),
        ("grep", {"pattern": "needle"}),
    ):
        assert "the user's settings hide it" in bench.refusal(name, path=path, **arguments), name


def listed(bench):
    return {line.partition(":")[0] for line in bench.text("grep", pattern="needle").splitlines()}


def test_nothing_is_hidden_by_itself(hiding):
    assert listed(hiding()) == set(FILES)


def test_a_folder_with_all_below_it(hiding):
    bench = hiding("private")
    for path in ("private/p.txt", "private/deep/er/q.txt", "private/x.png", "private/not-there"):
        refused_or_absent = bench.refusal("file_read", path=path)
        assert "hide it" in refused_or_absent or "does not exist" in refused_or_absent
    refused(bench, "private/p.txt")
    assert listed(bench) == set(FILES) - {"private/p.txt", "private/deep/er/q.txt"}
    for name, arguments in (("file_list", {}), ("glob", {"pattern": "*"}), ("grep", {"pattern": "n"})):
        assert "hide it" in bench.refusal(name, path="private", **arguments)
    everything = bench.text("file_list", recursive=True)
    assert "private/\n" in everything
    assert "p.txt" not in everything
    for pattern in ("**", "private/**", "**/*.txt", "private/p.txt", "{private,notes}/*"):
        assert "private/" not in bench.text("glob", pattern=pattern).replace("no file matches private/", "")


def test_a_file(hiding):
    bench = hiding("notes/key.txt")
    refused(bench, "notes/key.txt")
    assert listed(bench) == set(FILES) - {"notes/key.txt"}
    assert "key.txt" not in bench.text("glob", pattern="notes/*.txt")
    assert "notes/key.txt" in bench.text("file_list", path="notes")
    assert bench.text("file_read", path="notes/open.txt") == "1\tneedle 4"


def test_nothing_is_made_in_it(hiding):
    bench = hiding("private", "new")
    for path in ("private/made.txt", "private/a/b.txt", "new", "new/x.txt"):
        assert "hide it" in bench.refusal("file_write", path=path, content="x")
    assert not (bench.root / "private/made.txt").exists()
    assert not (bench.root / "private/a").exists()
    assert not (bench.root / "new").exists()


@pytest.mark.parametrize(
    "spelling",
    [
        "private",
        "./private/",
        "notes/../private",
        "private/deep/..",
        "{root}/private",
        "{root}/notes/../private",
    ],
)
def test_however_the_settings_spell_it(hiding, spelling):
    bench = hiding(spelling.format(root=hiding().root))
    refused(bench, "private/p.txt")
    assert bench.text("file_read", path="private.txt") == "1\tneedle 5"


@pytest.mark.parametrize(
    "path",
    [
        *("./private//p.txt", "notes/../private/p.txt", "{root}/private/p.txt", "up/private/p.txt"),
        *("to-folder/p.txt", "to-file", "notes/chain/p.txt", "up/up/to-folder/deep/../p.txt", "to-deep/er/q.txt"),
    ],
)  # fmt: skip
def test_whatever_link_or_spelling_leads_to_it(hiding, path):
    bench = hiding("private")
    os.symlink(".", bench.root / "up")
    os.symlink("private", bench.root / "to-folder")
    os.symlink("private/p.txt", bench.root / "to-file")
    os.symlink("private/deep", bench.root / "to-deep")
    os.symlink("../up/to-folder", bench.root / "notes/chain")
    refused(bench, path.format(root=bench.root))
    assert "needle 1" not in bench.text("grep", pattern="needle")
    for pattern in ("**/*", "to-*", "notes/**", "up/**", "*/p.txt"):
        found = bench.text("glob", pattern=pattern)
        assert "p.txt" not in found.replace(pattern, "")
        assert "to-file" not in found.replace(pattern, "")


@pytest.mark.parametrize("name", ["PRIVATE", "Private", "private.", "pri\u200bvate", "\uff50rivate"])
def test_other_spellings_that_a_file_system_may_take_for_the_same(name):
    hidden = hidden_below(MemoryFiles(), ("private",), MemoryFiles())
    assert masked(f"{name}/p.txt", hidden)
    assert hides(hidden_below(MemoryFiles(), (name,), MemoryFiles()), "private/p.txt")


def test_a_hidden_link_hides_what_it_leads_to(hiding):
    bench = hiding("link")
    os.symlink("notes", bench.root / "link")
    refused(bench, "notes/key.txt")
    refused(bench, "link/key.txt")
    assert listed(bench) == {"private/p.txt", "private/deep/er/q.txt", "private.txt"}
    (bench.root / "link").unlink()
    os.symlink("private", bench.root / "link")  # where it leads is looked at for each call
    refused(bench, "private/p.txt")
    assert bench.text("file_read", path="notes/open.txt") == "1\tneedle 4"


def test_a_link_in_it_that_leads_out_opens_what_is_not_hidden_by_its_own_name_alone(hiding):
    bench = hiding("private")
    os.symlink("../notes", bench.root / "private/out")
    assert bench.text("file_read", path="notes/open.txt") == "1\tneedle 4"
    assert "private/out" not in bench.text("glob", pattern="**/*")


def test_what_is_swapped_for_a_link_while_it_is_opened(hiding, monkeypatch):
    """What counts is the place of what was opened."""
    bench = hiding("private")
    (bench.root / "swap").mkdir()
    (bench.root / "swap/p.txt").write_text("harmless\n")
    read = ConfinedRoot.read

    def swapping(self, rel, limit, admit=None):
        if (bench.root / "swap/p.txt").is_file() and not (bench.root / "swap").is_symlink():
            (bench.root / "swap").rename(bench.root / "gone")
            os.symlink("private", bench.root / "swap")
        return read(self, rel, limit, admit)

    monkeypatch.setattr(ConfinedRoot, "read", swapping)
    assert "hide it" in bench.refusal("file_read", path="swap/p.txt")


def test_a_hard_link_is_another_file_that_happens_to_hold_the_same(hiding):
    """It cannot be told from a copy; no tool makes one, and one that is written is cut loose."""
    bench = hiding("private")
    os.link(bench.root / "private/p.txt", bench.root / "hard.txt")
    assert bench.text("file_read", path="hard.txt") == "1\tneedle 1"
    bench.text("file_write", path="hard.txt", content="mine\n")
    assert (bench.root / "private/p.txt").read_text() == "needle 1\n"


def test_files_of_a_skill(hiding):
    bench = hiding()
    (bench.skill / "secret").mkdir()
    (bench.skill / "secret/s.txt").write_text("needle\n")
    (bench.skill / "s.txt").write_text("needle\n")
    os.symlink("secret/s.txt", bench.skill / "link")
    bench = hiding(str(bench.skill / "secret"))
    for path in ("skill:notes/secret/s.txt", "skill:notes/link"):
        assert "hide it" in bench.refusal("file_read", path=path)
    assert bench.text("file_read", path="skill:notes/s.txt") == "1\tneedle"
    bench = hiding(str(bench.skill.parent))
    assert "hide it" in bench.refusal("file_read", path="skill:notes/s.txt")
    assert listed(bench) == set(FILES)


def test_all_of_the_workspace_and_paths_elsewhere(hiding, tmp_path):
    assert listed(hiding("../elsewhere", str(tmp_path / "out"), "nowhere/at/all")) == set(FILES)
    for everything in (".", str(tmp_path), "/"):
        bench = hiding(everything)
        refused(bench, "private.txt")
        assert "hide it" in bench.refusal("grep", pattern="needle")
        assert "hide it" in bench.refusal("file_list")


def test_files_in_memory():
    files = MemoryFiles({name: text.encode() for name, text in FILES.items()})
    around = Surroundings(files, {}, lambda *_: None, hidden=("private", "./notes/key.txt", "/abs", "../x"))
    toolbox = Toolbox(SPECS, around)

    def call(name, **arguments):
        return asyncio.run(toolbox.run(ToolCall("c", name, json.dumps(arguments)))).text

    assert "hide it" in call("file_read", path="private/p.txt")
    assert "hide it" in call("file_write", path="notes/key.txt", content="x")
    assert call("grep", pattern="needle").splitlines() == [
        "notes/open.txt:1:needle 4",
        "private.txt:1:needle 5",
    ]


PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join)


@given(PATHS, st.lists(PATHS, max_size=3))
def test_a_path_is_hidden_with_the_folders_above_it(path, names):
    hidden = hidden_below(MemoryFiles(), names, MemoryFiles())
    assert hides(hidden, path) == any(path == name or path.startswith(f"{name}/") for name in names)
