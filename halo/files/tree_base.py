"""What every tree has in common: paths, kinds, errors and the protocol (imported through `tree`)."""

import re
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from halo.errors import TreeError
from halo.files.roots import Kind
from halo.files.stamps import Stamp

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_LIMIT = 4 * 1024 * 1024  # bytes; a prompt source is text, and nobody's context holds more


class NotFound(TreeError):  # noqa: N818  # absence is often an answer rather than an error
    """Nothing is there: no such file or directory, or no such root."""


class Entry(msgspec.Struct, frozen=True):
    """A name in a directory. `kind` is what a symlink leads to; "other" when it dangles or leaves."""

    name: str
    kind: Kind
    # A symlink's kind can change while its directory's stat data do not.
    link: bool = False


class Problem(msgspec.Struct, frozen=True):
    """Something a listing left out: `path` is the directory, `message` says what and what to do."""

    path: str
    message: str


class Tree(Protocol):
    """A read-only view of named roots. Paths are `<root>:<relative path>`, such as `workspace:.halo/USER.md`.

    The root itself is `workspace:`. All methods raise TreeError, which says what to do, for a malformed
    path and for what leaves its root or cannot be read.
    """

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes. Raises NotFound; TreeError for a directory or more than `limit` bytes."""
        ...

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries, sorted by the UTF-8 bytes of the name.

        Raises NotFound for what is absent, TreeError for what is not a directory.
        """
        ...

    def kind(self, path: str) -> Kind:
        """Say what `path` is, "absent" included. "other" is a FIFO, a device or a symlink to nowhere."""
        ...


@runtime_checkable
class ReportingTree(Protocol):
    """A tree that remembers what its listings left out."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was left out so far, each once, in order of path."""
        ...


def stamp_of(tree: Tree, path: str) -> Stamp | None:
    """Return the stat data of `path` in `tree`; None when it has none, so that only content can be compared.

    A tree that knows stat data has a method `stamp`. That is asked for by name, because a check against a
    protocol costs more than the stat.
    """
    stamp: Callable[[str], Stamp | None] | None = getattr(tree, "stamp", None)
    return stamp(path) if stamp is not None else None


def problems_of(tree: Tree) -> tuple[Problem, ...]:
    """Return what listings of `tree` have left out so far."""
    return tree.problems if isinstance(tree, ReportingTree) else ()


def split(path: str) -> tuple[str, str]:
    """Split `root:a/b` into `("root", "a/b")`. Raises TreeError for empty, absolute, `.` and `..` parts."""
    root, colon, rel = path.partition(":")
    if not colon or not root or "/" in root:
        raise _malformed(path, "it wants the form root:relative/path")
    if rel:
        check_relative(rel)
    return root, rel


def join(path: str, *parts: str) -> str:
    """Append relative paths to a tree path: `join("workspace:", ".halo", "agents/x")`.

    Raises TreeError for empty, absolute, `.` and `..` parts.
    """
    _, rel = split(path)
    for part in parts:
        check_relative(part)
        path = f"{path}/{part}" if rel else path + part
        rel = part
    return path


def check_relative(rel: str) -> None:
    """Raise TreeError unless `rel` is a plain relative path: `/` between parts, none empty, `.` or `..`."""
    for part in rel.split("/"):
        if part in ("", ".", ".."):
            raise _malformed(rel, f"{part!r} cannot be a part of it")
    if "\0" in rel or "\\" in rel:
        raise _malformed(rel, "NUL and backslash cannot stand in it")


def parent(path: str) -> str | None:
    """Return the directory that holds `path`, None for a root."""
    root, rel = split(path)
    if not rel:
        return None
    return f"{root}:{rel.rpartition('/')[0]}"


def absent(path: str) -> NotFound:
    """Build the error for a path where nothing is."""
    return NotFound("no such file or directory", file=path)


def not_a_file(path: str) -> TreeError:
    """Build the error for a directory that was read."""
    return TreeError("is a directory, a file was expected", file=path, hint="name a file in it")


def not_a_directory(path: str) -> TreeError:
    """Build the error for a file that was listed."""
    return TreeError("is not a directory", file=path, hint="move the file away or make it a directory")


def too_large(path: str, limit: int) -> TreeError:
    """Build the error for a file with more than `limit` bytes."""
    return TreeError(
        f"is larger than the {limit:,} bytes that may be read",
        file=path,
        hint="shorten it or split it; what large data an agent needs, it reads with its tools",
    )


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def unlistable(name: str) -> str | None:
    """Say why a listing leaves `name` out, None when it does not.

    Such names could not be written into manifests and logs, or would mean something else on Windows.
    """
    if "\n" in name or "\r" in name:
        return "holds a line break"
    if _CONTROL.search(name):
        return "holds a control character"
    if "\\" in name:
        return "holds a backslash"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    return None


def left_out(directory: str, name: str, reason: str) -> Problem:
    """Describe a name that a listing of `directory` leaves out."""
    return Problem(directory, f"{name!a} {reason} and is left out; rename it")


def _malformed(path: str, why: str) -> TreeError:
    return TreeError(
        f"{path!r} is not a path in a tree: {why}",
        hint="write it like workspace:.halo/USER.md, with '/' between its parts",
    )
