"""Who wrote a line of a layer, and when, as git knows it.

What is blamed is the text that Halo read, handed to git on stdin: lines that are not committed are seen, and
git opens no file of the work tree itself. Each file is blamed once, in the repository that holds it.
"""

from collections.abc import Iterable

import msgspec

from halo.build.trace.blame_records import Authorship, Commit, State, read_incremental
from halo.build.trace.blame_sources import GitFile, Repositories, canonical_lines, find_file
from halo.errors import HaloError
from halo.version import __version__
from halo.workspace.personas import HOOK
from halo.workspace.places import Places

# Where the rules of composition are explained, for text that no layer holds.
RULES_PAGE = "docs/reference/layers.md"

# More ranges than this are one call for the whole file.
_MOST_RANGES = 100

Line = tuple[str, int]  # source (a tree path) and line from 1


def blame_lines(places: Places, lines: Iterable[Line]) -> dict[Line, Authorship]:
    """Say of each line of a layer who wrote it, or why that is not known.

    Never fails for one file: a source that cannot be blamed gets the reason.
    """
    wanted: dict[str, set[int]] = {}
    for source, line in lines:
        wanted.setdefault(source, set()).add(line)
    repositories = Repositories()
    found: dict[Line, Authorship] = {}
    for source, numbers in wanted.items():
        authors = _blame_source(places, repositories, source, numbers)
        found.update({(source, number): author for number, author in authors.items()})
    return found


def _blame_source(
    places: Places, repositories: Repositories, source: str, numbers: set[int]
) -> dict[int, Authorship]:
    scope = source.partition(":")[0]
    if scope == "halo":
        return _all(numbers, "rules", f"the rules of composition, {RULES_PAGE}")
    if source.startswith(HOOK):
        return _all(numbers, "outside", "the answer of an installed persona")
    if scope == "builtin":
        return _all(numbers, "builtin", f"comes with Halo {__version__}")
    try:
        file = find_file(places, source)
        if not file.repository:
            return _all(numbers, "outside", "not in a git repository")
        program = repositories.foreign_filter(file)
        if program is not None:
            return _all(
                numbers,
                "unknown",
                f"git reads this file through the program of filter {program!r}, which is set in the"
                " repository's own configuration; Halo does not run it",
            )
        return _blame_file(repositories, file, numbers)
    except HaloError as error:
        return _all(numbers, "unknown", error.message)
    except OSError as error:
        return _all(numbers, "unknown", f"cannot be read: {error.strerror}")


def _blame_file(repositories: Repositories, file: GitFile, numbers: set[int]) -> dict[int, Authorship]:
    lines = canonical_lines(file.data, numbers)
    absent = numbers - lines.keys()
    found = _all(absent, "unknown", "the file has no such line any more")
    if not lines:
        return found
    answer = file.git(
        *("blame", "--incremental", "--no-textconv", "--encoding=UTF-8", "--contents", "-"),
        *_ranges(set(lines.values())),
        *("--", file.name),
        data=file.data,
    )
    if answer.code:
        return found | _all(lines, *_refusal(answer.said, file))
    commits = read_incremental(answer.out)
    for number, line in lines.items():
        commit = commits.get(line)
        found[number] = (
            Authorship("committed", commit=_aged(repositories, file, commit))
            if commit is not None
            else Authorship("changed", "not committed yet")
        )
    return found


def _aged(repositories: Repositories, file: GitFile, commit: Commit) -> Commit:
    """Tell the first commit of all from the oldest one of a shallow clone, to which older lines are laid."""
    if commit.earlier and not repositories.is_shallow(file):
        return msgspec.structs.replace(commit, earlier=False)
    return commit


def _ranges(lines: set[int]) -> list[str]:
    """Return the `-L` options for `lines`."""
    ranges: list[tuple[int, int]] = []
    for line in sorted(lines):
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    if len(ranges) > _MOST_RANGES:
        return []
    return [f"-L{first},{last}" for first, last in ranges]


def _refusal(said: str, file: GitFile) -> tuple[State, str]:
    """Tell apart why git would not blame a file."""
    if "no such path" in said:
        return "untracked", "not tracked by git"
    if "no such ref: HEAD" in said:
        return "untracked", "not committed yet: the repository has no commit"
    if "not a git repository" in said:
        return "outside", "not in a git repository"
    if "dubious ownership" in said:
        cure = f"git config --global --add safe.directory {file.repository}"
        return "unknown", f"git does not trust this repository, it belongs to another user; if you do: {cure}"
    return "unknown", f"git: {said.partition(chr(10))[0] or 'failed without a word'}"


def _all(numbers: Iterable[int], state: State, note: str) -> dict[int, Authorship]:
    return dict.fromkeys(numbers, Authorship(state, note))
