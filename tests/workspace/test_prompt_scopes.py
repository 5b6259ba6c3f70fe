"""Which folder serves `prompts/<name>/` when one is missing, empty or cannot be read (docs/reference/layers.md)."""

import shutil

import pytest
from making import agent, compiled, tree

from halo.cli.prompt import layer_table
from halo.errors import TreeError
from halo.files.tree import MemoryTree, RecordingTree
from halo.models.prompt_counts import estimate_prompt
from halo.records.targets import AgentTarget
from halo.workspace.layers import prompt_scope

WORKSPACE, GLOBAL = "workspace:.halo/prompts/all", "global:prompts/all"
PLACES = {
    f"{WORKSPACE}/x.md": "W",
    f"{GLOBAL}/x.md": "G",
    "builtin:prompts/all/x.md": "B",
}


class Closed(MemoryTree):
    """A tree in which some folders may not be listed, or not even be looked at."""

    def __init__(self, files, *, unlistable=(), hidden=()):
        super().__init__({path: text.encode() for path, text in files.items()})
        self.unlistable, self.hidden = unlistable, hidden

    def list(self, path):
        if path in self.unlistable:
            raise TreeError("cannot be read: Permission denied", file=path)
        return super().list(path)

    def kind(self, path):
        if path in self.hidden:
            raise TreeError("cannot be read: Permission denied", file=path)
        return super().kind(path)


def without(*prefixes):
    return {path: text for path, text in PLACES.items() if not path.startswith(prefixes)}


def served(layers):
    found = prompt_scope(layers, "all", "posix")
    return (
        found.scope,
        "".join(layer.body for layer in found.layers),
        [(d.code, d.source) for d in found.diagnostics],
    )


@pytest.mark.parametrize(
    ("missing", "scope", "text"),
    [
        ((), "workspace", "W"),
        ((WORKSPACE,), "global", "G"),
        ((GLOBAL,), "workspace", "W"),
        ((WORKSPACE, GLOBAL), "builtin", "B"),
    ],
)
def test_a_missing_folder_is_no_remark(missing, scope, text):
    assert served(tree(without(*missing))) == (scope, text, [])


@pytest.mark.parametrize("how", ["unlistable", "hidden"])
@pytest.mark.parametrize(
    ("closed", "scope", "text"),
    [
        ((WORKSPACE,), "global", "G"),
        ((WORKSPACE, GLOBAL), "builtin", "B"),
        ((GLOBAL,), "workspace", "W"),
    ],
)
def test_a_folder_that_may_not_be_read_counts_as_missing_and_is_said(how, closed, scope, text):
    expected = [("prompts-unreadable", path) for path in closed if WORKSPACE in closed]
    assert served(Closed(PLACES, **{how: closed})) == (scope, text, expected)


@pytest.mark.parametrize("place", [WORKSPACE, GLOBAL])
def test_so_does_a_file_in_its_place(place):
    files = {**without(WORKSPACE, place), place: "text"}
    scope = "builtin" if place == GLOBAL else "global"
    assert served(tree(files)) == (scope, scope[0].upper(), [("prompts-unreadable", place)])


@pytest.mark.parametrize("target", ["nowhere", "/", "../../.."])
def test_so_does_a_link_to_nowhere_or_out_of_its_root(make_workspace, target):
    ws = make_workspace({"global:prompts/all/x.md": "G", ".halo/prompts/.keep": ""})
    (ws.halo / "prompts" / "all").symlink_to(target)
    assert served(ws.places.tree()) == ("global", "G", [("prompts-unreadable", WORKSPACE)])


def test_an_empty_folder_stays_empty(make_workspace):
    ws = make_workspace({"global:prompts/all/x.md": "G"})
    (ws.halo / "prompts" / "all").mkdir(parents=True)
    assert served(ws.places.tree()) == ("workspace", "", [])


def test_nothing_readable_anywhere_is_said_as_well():
    layers = Closed(without(GLOBAL, "builtin"), unlistable=(WORKSPACE,))
    assert served(layers) == ("builtin", "", [("prompts-unreadable", WORKSPACE), ("prompts-missing", "")])


def test_the_artifact_says_so_and_the_table_names_the_scope():
    files = {
        **without(WORKSPACE, GLOBAL),
        WORKSPACE: "a file",
        ".halo/agents/a/agent.yaml": agent(),
        ".halo/agents/a/AGENT.md": "BODY",
    }
    manifest = compiled(files).manifest
    (segment,) = (s for s in manifest.segments if s.id == "prompts/all/x.md")
    assert segment.scope == "builtin"
    (remark,) = (d for d in manifest.diagnostics if d.code == "prompts-unreadable")
    assert (remark.severity, remark.source) == ("warning", WORKSPACE)
    rows = [line.split()[:3] for line in layer_table(manifest, estimate_prompt("", manifest)).splitlines()]
    assert ["prompts/all/x.md", "builtin", "builtin:prompts/all/x.md"] in rows


def test_what_was_mended_is_noticed(make_workspace):
    """An artifact that rests on something unreadable is stale when that can be read."""
    ws = make_workspace(
        {".halo/agents/a/agent.yaml": agent(), ".halo/prompts/all": "a file"}
    ).without_templates()
    place = ws.halo / "prompts" / "all"
    target = AgentTarget("a")
    for mend in (
        lambda: None,
        place.unlink,
        lambda: place.symlink_to("nowhere"),
        lambda: [place.unlink(), place.mkdir()],
    ):
        mend()
        artifact = ws.builder.ensure(target)
        codes = [d.code for d in artifact.manifest.diagnostics if d.code == "prompts-unreadable"]
        assert bool(codes) is (place.is_file() or place.is_symlink())
        assert ws.builder.status(target).artifact == artifact
    (place / "x.md").write_text("W")
    assert "\n\nW\n\n" in ws.builder.ensure(target).prompt
    shutil.rmtree(place)
    assert "W" not in ws.builder.ensure(target).prompt


def test_what_could_not_be_read_is_an_input():
    recording = RecordingTree(Closed(PLACES, unlistable=(WORKSPACE,)), lambda: 0)
    prompt_scope(recording, "all", "posix")
    inputs = {i.path: i.digest for i in recording.inputs()}
    assert inputs[WORKSPACE] == "unreadable"
    assert inputs[GLOBAL] not in ("", "exists", "unreadable")
