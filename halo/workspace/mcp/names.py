"""What a server's tool is called towards a model: providers take 64 letters, digits, `_` and `-`."""

import re
from collections import Counter
from collections.abc import Iterable

from halo.files.canonical import canonical_json
from halo.files.digests import sha256

PREFIX = "mcp__"
_LONGEST = 64
_DIGITS = 12  # of a digest: a server that chooses its names cannot make two alike
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Name each tool, given as (server, its name there).

    `mcp__<server>__<tool>` with `_` for what may not stand in it. What is too long, or what two tools would
    both be called, ends in a digest of server and tool.
    """
    plain = {tool: _UNFIT.sub("_", f"{PREFIX}{tool[0]}__{tool[1]}") for tool in tools}
    often = Counter(plain.values())
    return {
        tool: name if len(name) <= _LONGEST and often[name] == 1 else _told_apart(name, tool)
        for tool, name in plain.items()
    }


def _told_apart(name: str, tool: tuple[str, str]) -> str:
    return f"{name[: _LONGEST - _DIGITS - 1]}_{sha256(canonical_json(tool))[:_DIGITS]}"
