"""Settings and conversations are kept from models: by whatever name, at any depth, in every root."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.masks import masked

TEXT = {"settings.yaml": "api_key: sk-1\n", "sessions/2026-11/s/events.jsonl": "sk-1\n", "INDEX.md": "fine\n"}


def halo(prefix=""):
    return {f"{prefix}.halo/{name}": text for name, text in TEXT.items()}


def test_by_whatever_name(bench):
    """Links, other case, a walk, or a search from inside `.halo`."""
    bench.write(halo())
    os.symlink(".halo/settings.yaml", bench.root / "alias")
    os.symlink(".halo/sessions", bench.root / "past")
    for path in (
        ".halo/settings.yaml",
        "./.halo//settings.yaml",
        ".halo/settings.yaml/",
        f"{bench.root}/.halo/settings.yaml",
        "alias",
        "past/2026-11/s/events.jsonl",
    ):
        assert "kept from models" in bench.refusal("file_read", path=path)
        assert "kept from models" in bench.refusal("grep", pattern="sk-1", path=path)
    assert "kept from models" in bench.refusal("file_list", path=".halo/sessions")
    assert "kept from models" in bench.refusal("file_list", path="past", recursive=True)
    assert "sk-1" not in bench.text("file_list", recursive=True)
    for path in (".halo", "."):
        assert bench.text("grep", pattern="sk-1", path=path) == "no match for 'sk-1'"
    assert bench.text("grep", pattern="fine", path=".halo") == ".halo/INDEX.md:1:fine"


def test_a_masked_folder_is_listed_as_a_name(bench):
    bench.write(halo())
    names = [".halo/INDEX.md", ".halo/sessions/", ".halo/settings.yaml"]
    assert bench.text("file_list", path=".halo").splitlines() == names
    assert bench.text("file_list", path=".halo", recursive=True).splitlines() == names


@pytest.mark.parametrize("prefix", ["sub/", "a/b/c/", ".halo/evo/x/", "node_modules/m/"])
def test_in_nested_workspaces(bench, prefix):
    bench.write(halo(prefix))
    folder = prefix + ".halo"
    for name in ("settings.yaml", "sessions/2026-11/s/events.jsonl"):
        assert "kept from models" in bench.refusal("file_read", path=f"{folder}/{name}")
    assert "kept from models" in bench.refusal("file_list", path=f"{folder}/sessions/2026-11")
    assert bench.text("file_list", path=folder, recursive=True).splitlines() == [
        f"{folder}/INDEX.md",
        f"{folder}/sessions/",
        f"{folder}/settings.yaml",
    ]
    assert bench.text("grep", pattern="sk-1|fine", path=folder) == f"{folder}/INDEX.md:1:fine"


def test_in_a_linked_folder(bench):
    """The top may be a link; what is below it is masked by its real path."""
    bench.write(halo("sub/"))
    os.symlink("sub/.halo", bench.root / "inner")
    assert bench.text("grep", pattern="sk-1|fine", path="inner") == "inner/INDEX.md:1:fine"
    assert "inner/sessions/\n" in bench.text("file_list", path="inner", recursive=True)


def test_in_the_folder_of_a_skill(bench):
    for name, text in halo("example/").items():
        path = bench.skill / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert "kept from models" in bench.refusal("file_read", path="skill:notes/example/.halo/settings.yaml")
    found = bench.text("grep", pattern="sk-1|fine", path="skill:notes/example/.halo")
    assert found == "skill:notes/example/.halo/INDEX.md:1:fine"


def test_what_only_looks_like_it_is_open(bench):
    bench.write({"settings.yaml": "a\n", "sessions/x": "b\n", "x.halo/settings.yaml": "c\n"})
    bench.write({".halo/settings.yaml.md": "d\n", ".halo/agents/sessions/x": "e\n"})
    for path in ("settings.yaml", "sessions/x", "x.halo/settings.yaml", ".halo/settings.yaml.md"):
        assert bench.text("file_read", path=path)
    assert bench.text("file_read", path=".halo/agents/sessions/x") == "1\te"


@pytest.mark.parametrize(
    "real",
    [
        ".halo/settings.yaml",
        ".HALO/Settings.YAML",
        "a/.halo/sessions",
        "a/.Halo/SESSIONS/x",
        ".halo/se\u200dttings.yaml",
        ".ha\ufefflo/sessions/x",
        ".halo/\u017fessions",
        ".halo/secrets/settings.yaml",
        ".halo/traces/t.jsonl",
        ".halo/batch/b.jsonl",
        ".halo/evo/runs/r",
        ".halo/machine.key",  # where the home directory is the workspace
        ".halo./settings.yaml ",  # Windows
        ".halo/\ufe0fsettings.yaml",
    ],
)
def test_names_that_a_file_system_takes_for_the_same(real):
    assert masked(real)


@given(st.lists(st.text(min_size=1).filter(lambda part: "/" not in part)), st.sampled_from(["x", "", "x/y"]))
def test_at_any_depth(above, below):
    assert masked("/".join([*above, ".halo", "sessions", below]))
    assert not masked("/".join([*above, "halo", "docs", below])) or masked("/".join(above))
