"""What the front matter of a SKILL.md means to Halo: typed, with a remark for what is odd."""

import re
from typing import Any

import msgspec

from halo.records.targets import Access
from halo.workspace.layers import one_line
from halo.workspace.skills.front import Remark, SkillFile


class SkillFields(msgspec.Struct, frozen=True):
    """The keys that Halo uses; `license`, `compatibility`, `metadata` and all others mean nothing to it."""

    name: str = ""
    description: str = ""
    name_line: int = 1
    description_line: int = 1
    requires_access: Access = "readonly"
    model_invocable: bool = True
    user_invocable: bool = True
    allowed_tools: tuple[str, ...] = ()


def skill_fields(file: SkillFile) -> tuple[SkillFields, tuple[Remark, ...]]:
    """Read the fields. What cannot be used is as if it were not there, and said."""
    remarks: list[Remark] = []
    name, name_line = _find(file, "name", remarks)
    description, description_line = _find(file, "description", remarks)
    fields = SkillFields(
        name=_text(name),
        description=_text(description),
        name_line=name_line,
        description_line=description_line,
        requires_access=_access(*_find(file, "requires-access", remarks), remarks),
        model_invocable=not _switch(file, "disable-model-invocation", remarks, default=False),
        user_invocable=_switch(file, "user-invocable", remarks, default=True),
        allowed_tools=_tools(*_find(file, "allowed-tools", remarks), remarks),
    )
    return fields, tuple(remarks)


def _find(file: SkillFile, key: str, remarks: list[Remark]) -> tuple[Any, int]:
    """Return value and line of a key: as it is spelt here, in camel case, or in any other way."""
    if key in file.values:
        return file.values[key], file.lines.get(key, 1)
    for other, value in file.values.items():
        if _squashed(other) == _squashed(key):
            line = file.lines.get(other, 1)
            if other != _camel(key):
                remarks.append(Remark(line, f"{other!a} is read as {key}"))
            return value, line
    return None, 1


def _squashed(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "")


def _camel(key: str) -> str:
    first, *others = key.split("-")
    return first + "".join(word.capitalize() for word in others)


def _text(value: Any) -> str:
    return one_line(str(value)) if value is not None else ""


def _access(value: Any, line: int, remarks: list[Remark]) -> Access:
    for level in ("full", "workspace", "readonly"):
        if value == level:
            return level
    if value is None:
        return "readonly"
    remarks.append(Remark(line, "requires-access is full, workspace or readonly; it is taken as readonly"))
    return "readonly"


_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _switch(file: SkillFile, key: str, remarks: list[Remark], *, default: bool) -> bool:
    value, line = _find(file, key, remarks)
    if value is None:
        return default
    found = _SWITCHES.get(str(value).strip().lower())
    if found is None:
        remarks.append(Remark(line, f"{key} is true or false; it is left out of account"))
        return default
    return found


# Brackets hold what a tool is allowed to do, blanks included: `Bash(git add:*)`.
_TOOL = re.compile(r"(?:[^\s,()]|\([^()]*\)?|\))+")


def _tools(value: Any, line: int, remarks: list[Remark]) -> tuple[str, ...]:
    """Split the specification's one string, at commas too, or take a list."""
    if isinstance(value, str):
        return tuple(one_line(tool) for tool in _TOOL.findall(value))
    if isinstance(value, list) and all(isinstance(tool, str) for tool in value):
        return tuple(one_line(tool) for tool in value)
    if value is not None:
        remarks.append(Remark(line, "allowed-tools names tools, separated by blanks; it is left out"))
    return ()
