"""The assembled prompts of `workspace_example/`, one readable file each.

They are compiled from the workspace and the packaged templates, without a global folder. After a change of
layers or rules read the diff, then `pytest tests/compiler --snapshot-update`.
"""

from pathlib import Path

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from halo.build.targets import default_targets
from halo.compiler.compile import compile_target
from halo.files.tree import DiskTree
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget
from halo.workspace.locate import templates_folder

EXAMPLE = Path(__file__).resolve().parents[2] / "workspace_example"


class Markdown(SingleFileSnapshotExtension):
    file_extension = "md"
    _write_mode = WriteMode.TEXT


def example_tree():
    return DiskTree({"workspace": str(EXAMPLE), "builtin": templates_folder()})


TARGETS = {
    **{
        f"{agent}-{role}": AgentTarget(agent, role)
        for agent in ("default", "worker", "reviewer")
        for role in ("root", "sub")
    },
    "worker-in-stations-upper": AgentTarget("worker", "sub", "stations/upper"),
    "worker-windows": AgentTarget("worker", "sub", platform="windows"),
    "skill-station-report": SkillTarget("station-report"),
    "skill-note-lint": SkillTarget("note-lint"),
    "skill-changelog": SkillTarget("changelog"),
    "rules-of-stations": ScopeTarget("stations"),
    "rules-of-stations-upper": ScopeTarget("stations/upper"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_prompt(name, snapshot):
    """What a model is told, byte for byte."""
    assert compile_target(example_tree(), TARGETS[name]).prompt == snapshot.use_extension(Markdown)


def test_every_target_of_the_example_has_a_snapshot():
    """A new agent, skill or directory with rules is not forgotten here."""
    example_only = DiskTree({"workspace": str(EXAMPLE)})
    assert set(default_targets(example_only).targets) <= set(TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_the_example_compiles_without_a_remark(name):
    assert compile_target(example_tree(), TARGETS[name]).manifest.diagnostics == ()
