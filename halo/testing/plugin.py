"""The pytest plugin. It is loaded by every pytest run where Halo is installed, so it imports late."""

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from halo.testing.prompts import Prompts


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--halo-global` and `halo_workspace`."""
    group = parser.getgroup("halo", "prompts of Halo")
    group.addoption(
        "--halo-global",
        action="store_true",
        help="compile with the global folder of this machine; by default it is left out",
    )
    parser.addini(
        "halo_workspace",
        "the workspace whose prompts are tested, from the folder of the ini file;"
        " by default the nearest .halo/ from the test file up",
        default="",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `halo_target` once for every agent, as root and as sub."""
    if "halo_target" in metafunc.fixturenames:
        from halo.errors import HaloError

        try:
            targets = _prompts(metafunc.config, str(metafunc.definition.path.parent)).targets()
        except HaloError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        metafunc.parametrize("halo_target", targets, ids=[f"{t.agent}-{t.role}" for t in targets])


@pytest.fixture
def halo_prompt(request: pytest.FixtureRequest) -> "Prompts":
    """Compile prompts of the workspace: `halo_prompt("default", role="sub")` is its text.

    Nothing is written; the global folder is left out unless `--halo-global` is given.
    """
    from halo.errors import HaloError

    __tracebackhide__ = True
    try:
        return _prompts(request.config, str(request.path.parent))
    except HaloError as error:
        raise error.with_traceback(None) from None


@pytest.fixture
def halo_snapshot(snapshot: Any) -> Any:
    """Compare a prompt with its snapshot, a readable `.md` file that is committed (by syrupy)."""
    from halo.testing.snapshots import PromptSnapshot

    return snapshot.use_extension(PromptSnapshot)


_DIFFERENCE = pytest.StashKey[str]()
_MOST_PLACES = 5  # pytest shows eight lines of an explanation


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: Any, right: Any
) -> "Generator[None, list[list[str]], list[list[str]]]":
    """Explain a snapshot that failed by the layers that changed, before syrupy shows it line by line."""
    others = yield
    explanation = _explanation(config, op, left, right)
    return [explanation, *others] if explanation else others


def _explanation(config: pytest.Config, op: str, left: Any, right: Any) -> list[str] | None:
    from sys import modules

    # Whoever compares a prompt with a snapshot has imported both.
    prompts, snapshots = modules.get("halo.testing.prompts"), modules.get("halo.testing.snapshots")
    if op != "==" or prompts is None or snapshots is None:
        return None
    prompt, other = (left, right) if isinstance(left, prompts.Prompt) else (right, left)
    expected = snapshots.recalled(other)
    if not isinstance(prompt, prompts.Prompt):
        return None
    if snapshots.is_missing(other):
        return [
            f"the prompt {prompt.target.label} has no snapshot yet; to write it: pytest --snapshot-update"
        ]
    if expected is None:
        return None
    places = prompts.differences(prompt, expected)
    where = [f"segment {p.segment} · {p.source}:{p.line}" for p in places]
    more = f" and {len(where) - _MOST_PLACES} more places" if len(where) > _MOST_PLACES else ""
    config.stash[_DIFFERENCE] = "\n\n".join(
        "\n".join([head, *place.shown]) for head, place in zip(where, places, strict=True)
    )
    return [f"the prompt {prompt.target.label} is not its snapshot{more}", *where[:_MOST_PLACES]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> "Generator[None, pytest.TestReport, pytest.TestReport]":
    """Show the whole difference of a prompt below the failure, which pytest would cut."""
    report = yield
    difference = item.config.stash.get(_DIFFERENCE, "")
    if difference:
        del item.config.stash[_DIFFERENCE]
        if report.failed:
            report.sections.append(("what changed in the prompt", difference))
    return report


def _prompts(config: pytest.Config, folder: str) -> "Prompts":
    from halo.testing.prompts import Prompts
    from halo.workspace.places import find_places

    named = str(config.getini("halo_workspace"))
    base = str(config.inipath.parent) if config.inipath is not None else str(config.rootpath)
    start = os.path.join(base, named) if named else folder
    return Prompts(find_places(start, os.environ), with_global=bool(config.getoption("--halo-global")))
