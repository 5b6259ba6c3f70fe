"""The values of slots, gathered when a turn starts. They live in memory only."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Slot
from halo.workspace.settings import GLOBAL_SETTINGS, Setting, expand, lookup, read_settings
from halo.workspace.trust import Grants


class Moment(NamedTuple):
    """What the builtin slots are filled from: absolute paths, the turn's ISO time, the agent's name."""

    workspace_root: str
    working_dir: str
    now: str
    agent_name: str


class Values(NamedTuple):
    """Slot values by name, and what could not be filled: said, and left as it is written."""

    values: dict[str, str]
    warnings: tuple[str, ...]


def slot_values(
    slots: Iterable[Slot], moment: Moment, tree: Tree, environ: Mapping[str, str], grants: Grants
) -> Values:
    """Gather values for `slots`; `grants` say which variables the workspace may read.

    It could otherwise send any variable of this machine to a model.
    """
    values: dict[str, str] = {}
    warnings: list[str] = []
    for slot in slots:
        if slot.name in values:
            continue
        match slot.origin:
            case "builtin":
                values[slot.name] = str(getattr(moment, slot.name))
            case "session":
                values[slot.name] = moment.agent_name if slot.name == "agent_name" else ""
            case "environment" if not grants.environment(Setting(slot.template, "", 0).names):
                warnings.append(
                    f"{{{{{slot.name}}}}} stays as it is: this workspace may not read the environment; "
                    "halo trust shows what it asks for"
                )
            case "environment":
                _expand_into(values, warnings, slot.name, slot.template, environ)
            case "settings":
                setting = lookup(read_settings(tree, GLOBAL_SETTINGS), slot.name)
                if setting is None:
                    warnings.append(f"{{{{{slot.name}}}}} has no value in the global settings any more")
                else:
                    _expand_into(values, warnings, slot.name, setting.text, environ)
    return Values(values, tuple(warnings))


def _expand_into(
    values: dict[str, str], warnings: list[str], name: str, text: str, environ: Mapping[str, str]
) -> None:
    values[name], unset = expand(text, environ)
    warnings.extend(f"{{{{{name}}}}}: the environment variable {v} is not set" for v in unset)
