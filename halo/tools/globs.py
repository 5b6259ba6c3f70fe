"""Globs for the names of files: `*.py`, `*.{md,txt}`, `*.c,*.h`."""

from halo.tools.base import ToolFailure

_LONGEST = 1000  # characters
_MOST = 200  # plain globs; `{a,b}` repeated doubles them each time


def plain_globs(include: str) -> list[str]:
    """Expand braces and comma lists into globs for `fnmatch`; raise `ToolFailure` for too many."""
    if len(include) > _LONGEST:
        raise ToolFailure(f"include has {len(include)} characters; {_LONGEST} are possible")
    found: list[str] = []
    todo = [glob.strip() for glob in _split(include) if glob.strip()][::-1]
    while todo:
        glob = todo.pop()
        start, end = glob.find("{"), glob.find("}")
        if start < 0 or end < start:
            found.append(glob)
        else:
            options = glob[start + 1 : end].split(",")
            todo += [glob[:start] + option + glob[end + 1 :] for option in options[::-1]]
        if len(found) + len(todo) > _MOST:
            raise ToolFailure(f"include stands for more than {_MOST} globs; write fewer alternatives")
    return found


def _split(include: str) -> list[str]:
    """Split at the commas outside braces."""
    globs: list[str] = []
    depth, current = 0, ""
    for char in include:
        if char == "," and depth == 0:
            globs.append(current)
            current = ""
            continue
        depth += (char == "{") - (char == "}")
        current += char
    return [*globs, current]
