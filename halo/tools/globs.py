"""Globs for the names of files: `*.py`, `*.{md,txt}`, `*.c,*.h`; and the braces of all globs."""

from halo.tools.base import ToolFailure

_LONGEST = 1000  # characters
_MOST = 200  # plain globs; `{a,b}` repeated doubles them each time


def plain_globs(include: str) -> list[str]:
    """Expand braces and comma lists into globs for `fnmatch`; raise `ToolFailure` for too many."""
    check_length(include, "include")
    globs = [glob.strip() for glob in _split(include) if glob.strip()]
    return expand_braces(globs, "include")


def check_length(text: str, what: str) -> None:
    """Refuse what is too long to be meant."""
    if len(text) > _LONGEST:
        raise ToolFailure(f"{what} has {len(text)} characters; {_LONGEST} are possible")


def expand_braces(globs: list[str], what: str) -> list[str]:
    """Write out `{a,b}`, nested ones too, in order; a brace without its other half is a character."""
    found: list[str] = []
    todo = globs[::-1]
    while todo:
        glob = todo.pop()
        start, end = _first_braces(glob)
        if end < 0:
            found.append(glob)
        else:
            options = _split(glob[start + 1 : end])
            todo += [glob[:start] + option + glob[end + 1 :] for option in options[::-1]]
        if len(found) + len(todo) > _MOST:
            raise ToolFailure(f"{what} stands for more than {_MOST} globs; write fewer alternatives")
    return found


def _first_braces(glob: str) -> tuple[int, int]:
    """Return where the first pair of braces that belong together begins and ends; (-1, -1) for none."""
    open_at: list[int] = []
    first = (-1, -1)
    for at, char in enumerate(glob):
        if char == "{":
            open_at.append(at)
        elif char == "}" and open_at:
            start = open_at.pop()
            if first[0] < 0 or start < first[0]:
                first = (start, at)
            if not open_at:
                break
    return first


def _split(include: str) -> list[str]:
    """Split at the commas outside braces."""
    globs: list[str] = []
    depth, current = 0, ""
    for char in include:
        if char == "," and depth == 0:
            globs.append(current)
            current = ""
            continue
        depth = max(depth + (char == "{") - (char == "}"), 0)
        current += char
    return [*globs, current]
