"""Where in settings.yaml a value of `general.prompt` stands: for errors, and for spans that lead there."""

import json

from halo.errors import LayerError
from halo.files.canonical import canonical_json
from halo.files.tree import NotFound, Tree, read_part
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, parse_settings
from halo.workspace.settings.general import GENERAL, general_part

# The lines alone: who leads to one is stale when the block moves, and not with every other edit of the file.
PROMPT_LINES = "prompt-lines"

_PROMPT = (GENERAL, "prompt")


def prompt_lines(data: bytes) -> bytes:
    """Return the line of each value below `general.prompt` as canonical JSON; `""` is the block's own."""
    document = parse_settings(data, PROMPT_LINES)
    lines = {
        ".".join(map(str, path[2:])): line for path, line in document.lines.items() if path[:2] == _PROMPT
    }
    return canonical_json(lines)


def prompt_setting_at(tree: Tree, key: str, item: int | None = None) -> tuple[str, int]:
    """Return the settings file that decides about `general.prompt.<key>`, and the line of it or its `item`.

    A value that no file has is led to where it would stand.
    """
    for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
        if key in _prompt_block(tree, source):
            return source, _line(tree, source, key if item is None else f"{key}.{item}")
    return WORKSPACE_SETTINGS, 1


def prompt_setting_error(
    tree: Tree, message: str, key: str, item: int | None = None, *, hint: str | None = None
) -> LayerError:
    """Build an error at a value of `general.prompt`."""
    source, line = prompt_setting_at(tree, key, item)
    return LayerError(f"general.prompt.{key}: {message}", file=source, line=line, hint=hint)


def _prompt_block(tree: Tree, source: str) -> dict[str, object]:
    try:
        part = read_part(tree, source, GENERAL, general_part)
    except NotFound:
        return {}
    block: dict[str, object] = (json.loads(part) or {}).get("prompt", {}) if part else {}
    return block


def _line(tree: Tree, source: str, path: str) -> int:
    """Return the line of `path`, or of what is above it: a merge key brings in values without lines."""
    lines: dict[str, int] = json.loads(read_part(tree, source, PROMPT_LINES, prompt_lines))
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path, 1)
