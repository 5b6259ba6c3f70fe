"""Halo: make for agents.

    from halo import Agent, Workspace, tool

The names are loaded when they are first used: the commands of Halo do without them.
"""

# Not from `typing`: the shortest commands do without that, too.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from halo.library.agent import Agent as Agent
    from halo.library.functions import tool as tool
    from halo.library.sync import SyncAgent as SyncAgent
    from halo.library.workspace import Workspace as Workspace
    from halo.records.budgets import Budget as Budget
    from halo.records.budgets import Budgets as Budgets
    from halo.tools.base import ToolFailure as ToolFailure
    from halo.tools.sandbox.memory import MemoryFiles as MemoryFiles
    from halo.version import __version__ as __version__

_EXPORTED = {
    "Agent": "halo.library.agent",
    "Budget": "halo.records.budgets",
    "Budgets": "halo.records.budgets",
    "MemoryFiles": "halo.tools.sandbox.memory",
    "SyncAgent": "halo.library.sync",
    "ToolFailure": "halo.tools.base",
    "Workspace": "halo.library.workspace",
    "__version__": "halo.version",
    "tool": "halo.library.functions",
}


def __getattr__(name: str) -> object:
    if name not in _EXPORTED:
        raise AttributeError(f"module 'halo' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_EXPORTED[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTED})
