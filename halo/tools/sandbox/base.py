"""What a sandbox offers to tools. Which one it is never shows in a prompt, so none changes a fingerprint.

Three kinds: in memory (`memory`), a confined folder of this machine (`halo.files.roots.ConfinedRoot`), and a
confined folder with commands in bubblewrap (`bubblewrap`).
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from halo.files.roots import Admit, Found, Kind


class Files(Protocol):
    """A folder with `/`-separated paths relative to it; nothing outside it can be reached.

    Methods raise OSError as the system call does (FileNotFoundError for what is absent), and TreeError for a
    path that is malformed, leaves the folder or is neither a regular file nor a directory. `admit` gets the
    real path, without symlinks, once it can no longer change; what it raises refuses the access.
    """

    path: str  # where it lies on this machine, for messages alone; empty for one in memory

    def resolve(self, rel: str) -> str:
        """Return the path that `rel` really is, without symlinks; "" is the folder itself."""

    def destination(self, rel: str) -> str:
        """Return the path where a file written as `rel` would stand, there or not yet."""

    def kind(self, rel: str) -> Kind:
        """Say what `rel` is, a symlink looked through."""

    def entries(self, rel: str, admit: Admit | None = None) -> list[Found]:
        """List a folder."""

    def read(self, rel: str, limit: int, admit: Admit | None = None) -> bytes:
        """Read at most `limit` bytes of a regular file."""

    def write(self, rel: str, data: bytes, admit: Admit | None = None) -> None:
        """Put `data` in the place of the whole file, or make it and the folders above it."""


# How a command ended: by itself, or killed because of its time or its output.
Ending = Literal["exit", "timeout", "output"]


class Executed(NamedTuple):
    """What a command came to.

    `code` is its exit code, negative for the signal that killed it. `output` and `errors` are what it wrote,
    as far as the cap goes; `dropped` counts the bytes beyond it.
    """

    code: int
    output: str
    errors: str
    ending: Ending = "exit"
    dropped: int = 0


class Commands(Protocol):
    """Runs command lines in the workspace root."""

    async def execute(self, command: str, environment: Mapping[str, str], seconds: float) -> Executed:
        """Run `command` in a shell with `environment` beside a clean one; kill it all after `seconds`.

        Cancelling kills the whole process group at once. Raises ToolFailure where no command can be run.
        """
