"""`general:` of settings.yaml: how prompts are put together and who takes part, typed.

The workspace's settings lie over those of the machine, value by value; a list is one value, and so are the
model behind an alias, a profile and an MCP server: an endpoint of one file never gets the provider of
another.
"""

import json
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from halo.errors import LayerError
from halo.files.canonical import canonical_json
from halo.files.tree import NotFound, Tree, read_part
from halo.records.policies import PolicyRule
from halo.records.targets import Access
from halo.workspace.conversion import convert
from halo.workspace.mcp.servers import McpSettings, mcp_problem
from halo.workspace.models.config import ModelSettings, settings_problem
from halo.workspace.settings.delivery import DeliverySettings, delivery_problem
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, parse_settings, read_settings
from halo.workspace.settings.sessions import SessionSettings, session_problem
from halo.workspace.yamldoc import YamlDocument

# The part of settings.yaml that every agent rests on; the values of parameters are other parts.
GENERAL = "general"

Section = Literal["safety", "documentation", "sandbox", "runtime", "reasoning", "reply_tags", "heartbeats"]
SkillFolder = Literal[".agents/skills", ".claude/skills"]


class Disabled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.disabled`: an id, whoever serves it, or `workspace:id`, `global:id`, `builtin:id`.

    The lists of both settings files are joined.
    """

    agents: Annotated[tuple[str, ...], Meta(description="Agents that are switched off.")] = ()
    skills: Annotated[tuple[str, ...], Meta(description="Skills that are switched off.")] = ()


class InstructionFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.prompt.instruction_files`: files that other tools read too.

    `agents_md`: the AGENTS.md nearest to the working directory, or the chain from the root down to it.
    """

    agents_md: Annotated[
        Literal["off", "nearest", "chain"],
        Meta(description="AGENTS.md: the nearest to the working directory, or all from the root down to it."),
    ] = "off"
    claude_md: Annotated[bool, Meta(description="CLAUDE.md with its imports.")] = False
    gemini_md: Annotated[bool, Meta(description="GEMINI.md with its imports.")] = False
    cursor_rules: Annotated[bool, Meta(description="Rules in .cursor/rules that always apply.")] = False
    copilot: Annotated[bool, Meta(description=".github/copilot-instructions.md and its kind.")] = False


class PromptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.prompt`. Sizes are characters.

    `time_zone`: `local` for the machine's, or an IANA name. `context_files` lie in `.halo/` of the workspace,
    else in the global folder. `persona` names an entry point that may replace them.
    """

    sections: Annotated[
        tuple[Section, ...], Meta(description="Builtin segments; the order does not matter.")
    ] = ()
    time_zone: Annotated[
        str, Meta(description="local, or a name such as Europe/Oslo: a line of the environment.")
    ] = ""
    context_files: Annotated[
        tuple[str, ...], Meta(description="Files below .halo/ under Project Context, in this order.")
    ] = ()
    context_file_chars: Annotated[int, Meta(ge=1, description="The most characters of a context file.")] = (
        20_000
    )
    context_total_chars: Annotated[
        int, Meta(ge=1, description="The most characters of all context files together.")
    ] = 150_000
    context_overflow: Annotated[
        Literal["error", "truncate"], Meta(description="What happens to more characters.")
    ] = "error"
    persona: Annotated[
        str, Meta(description="The entry point of the group halo.personas that may replace context files.")
    ] = ""
    instruction_files: InstructionFiles = InstructionFiles()


class SkillSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.skills`: further folders of skills, below the workspace and below the user's home."""

    search: Annotated[
        tuple[SkillFolder, ...], Meta(description="Further folders of skills, of the workspace and the user.")
    ] = ()


class ToolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.tools`: what tools may do, whichever agent has them.

    The strictest of both settings files counts for `access` and `policy`. What opens something (`network`,
    `private_hosts`, `writable`, a longer `shell_seconds`) counts where the machine's settings say it, or
    where the user allowed this workspace to.
    """

    access: Annotated[
        Access | None, Meta(description="The most that any agent may do: full, workspace or readonly.")
    ] = None
    policy: Annotated[
        tuple[PolicyRule, ...],
        Meta(description="Which calls run, ask or are denied: the first rule that matches counts."),
    ] = ()
    network: Annotated[bool, Meta(description="Whether commands in the sandbox reach the network.")] = False
    private_hosts: Annotated[
        tuple[str, ...],
        Meta(description="Hosts that web_fetch may reach although their address is private."),
    ] = ()
    writable: Annotated[
        tuple[str, ...], Meta(description="Further folders that commands in the sandbox may write to.")
    ] = ()
    hidden: Annotated[
        tuple[str, ...], Meta(description="Further files and folders that tools do not open.")
    ] = ()
    shell_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)] | None,
        Meta(description="How long a command may run; 120 if left out."),
    ] = None

    @property
    def seconds(self) -> float:
        """How long a command may run by these settings alone."""
        return 120 if self.shell_seconds is None else self.shell_seconds


class General(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general:` of settings.yaml."""

    disabled: Disabled = Disabled()
    prompt: PromptSettings = PromptSettings()
    skills: SkillSettings = SkillSettings()
    models: ModelSettings = ModelSettings()
    tools: ToolSettings = ToolSettings()
    mcp: McpSettings = McpSettings()
    session: SessionSettings = SessionSettings()
    delivery: DeliverySettings = DeliverySettings()


def general_part(data: bytes) -> bytes:
    """Return the `general` block of a settings file as canonical JSON; nothing where there is none."""
    document = parse_settings(data, GENERAL)
    block = document.value.get(GENERAL) if isinstance(document.value, dict) else None
    return canonical_json(block) if block is not None else b""


def read_general(tree: Tree) -> General:
    """Read the general settings of a workspace. Raises `LayerError` with file and line."""
    merged: Any = {}
    for source in (GLOBAL_SETTINGS, WORKSPACE_SETTINGS):
        part = _part(tree, source)
        if part:
            merged = _over(merged, json.loads(part))
    disabled = [read_general_of(tree, source).disabled for source in (GLOBAL_SETTINGS, WORKSPACE_SETTINGS)]
    if disabled[0] == Disabled():
        return _typed(canonical_json(merged))
    # What the machine switches off stays off: these lists are joined.
    merged["disabled"] = {
        kind: tuple(dict.fromkeys(entry for d in disabled for entry in getattr(d, kind)))
        for kind in Disabled.__struct_fields__
    }
    return _typed(canonical_json(merged))


def read_general_of(tree: Tree, source: str) -> General:
    """Read what one settings file says. Raises `LayerError` with file and line."""
    return _typed(_part(tree, source) or b"{}")


def _part(tree: Tree, source: str) -> bytes:
    """Return the checked block of one file, empty where it has none."""
    try:
        part = read_part(tree, source, GENERAL, general_part)
    except NotFound:
        return b""
    except LayerError:
        read_settings(tree, source)  # says the same with file and line
        raise
    if part:
        _check(part, tree, source)
    return part


def _check(part: bytes, tree: Tree, source: str) -> None:
    """Check the block of one file, so that an error names that file and the line in it."""
    try:
        general, where = _typed(part), "models"
        problem = settings_problem(general.models)
        if problem is None:
            problem, where = mcp_problem(general.mcp), "mcp"
        if problem is None:
            problem, where = session_problem(general.session), "session"
        if problem is None:
            problem, where = delivery_problem(general.delivery), "delivery"
    except msgspec.ValidationError:
        document = read_settings(tree, source)
        block = YamlDocument(
            document.value[GENERAL],
            {path[1:]: line for path, line in document.lines.items() if path[:1] == (GENERAL,)},
            source,
        )
        convert(block, General, within=GENERAL)
        raise
    if problem is not None:
        path = (GENERAL, where, *problem.path)
        raise read_settings(tree, source).error(problem.message, *path, hint=problem.hint)


@lru_cache(maxsize=64)
def _typed(part: bytes) -> General:
    return msgspec.json.decode(part, type=General)


def _over(below: Any, above: Any, *path: str) -> Any:
    """Lay one map over another; all else replaces what is below.

    So do a model, a profile, a server, and how a channel is reached.
    """
    whole = path[:1] in (("models",), ("mcp",)) and len(path) == 3
    whole = whole or (path[:1] == ("delivery",) and path[-1] == "connect")
    if whole or not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _over(below.get(key), value, *path, key) for key, value in above.items()}}
