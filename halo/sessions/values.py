"""The values of slots, gathered when a turn starts. They live in memory only."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Artifact, Slot
from halo.records.targets import AgentTarget
from halo.sessions.machine import Machine
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    Setting,
    expand,
    lookup,
    read_settings,
    variables_in,
)
from halo.workspace.settings.params import PARAM, read_params
from halo.workspace.time_zone import machine_zone_name
from halo.workspace.trust import Grants


class Moment(NamedTuple):
    """What the builtin slots are filled from: absolute paths, the turn's ISO time, the agent's name.

    `runtime` and `time_zone` are those of the machine, empty where they are not known.
    """

    workspace_root: str
    working_dir: str
    now: str
    agent_name: str
    runtime: str = ""
    time_zone: str = ""

    @classmethod
    def of(cls, artifact: Artifact, workspace: str, now: str, machine: Machine | None = None) -> "Moment":
        """Take what the artifact does not know: the absolute path of the workspace, and the time.

        `now` is the `ts` of the turn's `turn.started`, so that the prompt of a turn can be rendered again
        from its artifact and its session.
        """
        target, runtime = artifact.manifest.target, artifact.manifest.runtime
        agent, directory = (target.agent, target.directory) if isinstance(target, AgentTarget) else ("", "")
        return cls(
            workspace_root=workspace,
            working_dir=os.path.join(workspace, directory) if directory else workspace,
            now=now,
            agent_name=runtime.name if runtime is not None else agent,
            **(machine or Machine())._asdict(),
        )


class Values(NamedTuple):
    """Slot values by name, and what could not be filled: said, and left as it is written."""

    values: dict[str, str]
    warnings: tuple[str, ...]

    def at(self, now: str) -> dict[str, str]:
        """Return the values for a turn that started at `now` (ISO 8601)."""
        return {**self.values, "now": now}


def slot_values(
    slots: Iterable[Slot], moment: Moment, tree: Tree, environ: Mapping[str, str], grants: Grants
) -> Values:
    """Gather values for `slots`; `grants` say which of the machine's variables and values may be read.

    The workspace could otherwise send any of them to a model.
    """
    values: dict[str, str] = {}
    warnings: list[str] = []
    for slot in slots:
        if slot.name in values:
            continue
        match slot.origin:
            case "builtin" if slot.name == "time_zone":
                # The zone that the user's own settings name goes before that of the machine.
                zone = machine_zone_name(tree) or moment.time_zone
                if zone:
                    values[slot.name] = zone
                else:
                    warnings.append(
                        "{{time_zone}} stays as it is: this machine does not say its time zone; "
                        "set TZ, or name one in general.prompt.time_zone"
                    )
            case "builtin":
                if slot.name in Moment._fields:
                    values[slot.name] = str(getattr(moment, slot.name))
            case "session" if "$" in slot.name:
                pass  # only who invokes a skill with arguments fills it: `awk '{print $1}'` is text
            case "session":
                values[slot.name] = moment.agent_name if slot.name == "agent_name" else ""
            case "environment" if not grants.environment(slot.name, variables_in(slot.template)):
                warnings.append(
                    f"{{{{{slot.name}}}}} stays as it is: this workspace may not read the environment; "
                    "halo trust shows what it asks for"
                )
            case "environment":
                _expand_into(values, warnings, slot.name, slot.template, environ)
            case "settings" if not grants.value(tree, slot.name):
                warnings.append(
                    f"{{{{{slot.name}}}}} stays as it is: it is a value of this machine's settings "
                    "to which only this workspace lays claim; halo trust shows what it asks for"
                )
            case "settings":
                setting = _global_value(tree, slot.name)
                if setting is None:
                    warnings.append(f"{{{{{slot.name}}}}} has no value in the global settings any more")
                else:
                    _expand_into(values, warnings, slot.name, setting.text, environ)
    return Values(values, tuple(warnings))


# A word of arguments; double quotes keep spaces together.
_WORD = re.compile(r'(?:"[^"]*"|\S)+')


def argument_values(arguments: str) -> dict[str, str]:
    r"""Return the values of a skill's slots for the arguments that it is invoked with; none without any.

    `{{args}}` and `$ARGUMENTS` are all of it as it was given, `$1` to `$9` its words, empty where there are
    fewer. `\$1` is the escape: it becomes `$1`. A value is put into the text and never looked at again.
    """
    if not arguments.strip():
        return {}
    words = [word.replace('"', "") for word in _WORD.findall(arguments)]
    values = {"args": arguments, "$ARGUMENTS": arguments}
    values |= {f"${n}": words[n - 1] if n <= len(words) else "" for n in range(1, 10)}
    return values | {f"\\{name}": name for name in values if name.startswith("$")}


def takes_arguments(artifact: Artifact) -> bool:
    """Tell whether the text of a skill has a place for arguments."""
    return any(slot.name == "args" or slot.name.startswith("$") for slot in artifact.manifest.slots)


def _global_value(tree: Tree, name: str) -> Setting | None:
    """Return a value of the global settings that may stand in text by what is declared now.

    The compiler decided so when it made the slot; a declaration may have become secret since.
    """
    param = PARAM.match(name)
    if param is None:
        return None
    params = read_params(tree, param[1])
    setting = lookup(read_settings(tree, GLOBAL_SETTINGS), name)
    if setting is None or params.is_secret(param[2]):
        return None
    return None if setting.names and param[2] not in params.opened_by_user else setting


def _expand_into(
    values: dict[str, str], warnings: list[str], name: str, text: str, environ: Mapping[str, str]
) -> None:
    values[name], unset = expand(text, environ)
    warnings.extend(f"{{{{{name}}}}}: the environment variable {v} is not set" for v in unset)
