"""What tools may not write: whatever decides what an agent may do, and what Halo keeps for itself.

In `.halo` it is a list of what may be written: no list of what may not could name what does not exist yet.
"""

from halo.records.targets import Access
from halo.tools.masks import same_name

# In every `.halo`, at every access: records that Halo makes, seals and finds again.
_RECORDS = frozenset(
    {
        "sessions",
        "secrets",
        "build",
        "artifacts",
        "traces",
        "batch",
        "bundle.json",
        "machine.key",
        "trust.yaml",
    }
)
_RUNS = ("evo", "runs")

# Files that decide, and folders that hold none but such files. No folder may take the place of one either.
_DECIDING = frozenset({"settings.yaml", "agent.yaml", "config.yaml", "mcp.lock.json"})
_NO_LAYERS = frozenset({"models", "evo"})

_KEEPS = "is kept by Halo itself; no tool writes there"
_DECIDES = (
    "decides what agents may do, so it cannot be written at access workspace; layers can be: Markdown in "
    ".halo, skills, few-shots. Tell the user what you would change"
)
_GIT = "belongs to git, which runs what stands there; it cannot be written at access workspace"
_READS = "cannot be written: this session may only read"


def why_not_written(real: str, access: Access) -> str:
    """Say why tools may not write the file `real`; empty if they may.

    `real` is `/`-separated, below the workspace, without symlinks. Every `.halo` and `.git` on the way
    counts, those of examples and submodules too.
    """
    if access == "readonly":
        return _READS
    parts = [same_name(part) for part in real.split("/")]
    for at, part in enumerate(parts):
        rest = parts[at + 1 :]
        if part == ".halo":
            if rest[:1] and (rest[0] in _RECORDS or tuple(rest[:2]) == _RUNS):
                return _KEEPS
            if access != "full" and not _is_layer(rest):
                return _DECIDES
        elif part == ".git" and access != "full":
            return _GIT
    return ""


def _is_layer(rest: list[str]) -> bool:
    """Tell whether a path below `.halo` is text for models: Markdown, and all of a skill and of few-shots."""
    if not _DECIDING.isdisjoint(rest):
        return False
    match rest:
        case ["skills", _, _, *_] | ["agents", _, "fewshots", _, *_]:
            return True
        case [top, *_]:
            return top not in _NO_LAYERS and rest[-1].endswith(".md")
        case _:
            return False
