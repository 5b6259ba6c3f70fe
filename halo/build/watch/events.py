"""What a watcher tells."""

import msgspec

from halo.records.artifacts import Artifact
from halo.records.diagnostics import Diagnostic
from halo.records.differences import Difference
from halo.records.targets import Target


class Built(msgspec.Struct, frozen=True):
    """A target has another artifact than before, or is right again after it failed.

    `difference` is None where there is nothing to compare with; `remarks` are the diagnostics that are new;
    `seconds` have passed since the change was noticed.
    """

    target: Target
    artifact: Artifact
    difference: Difference | None
    remarks: tuple[Diagnostic, ...]
    seconds: float


class Failed(msgspec.Struct, frozen=True):
    """A target does not compile; its old artifact stays, marked stale.

    `target` is None where the targets cannot even be listed.
    """

    target: Target | None
    message: str


class Gone(msgspec.Struct, frozen=True):
    """A target, by name, is no more."""

    name: str


class Watching(msgspec.Struct, frozen=True):
    """Everything was looked at once; from now on changes are waited for."""

    targets: int
    failed: int
    folders: int


class Lost(msgspec.Struct, frozen=True):
    """The workspace's `.halo/` is not there any more; it is waited for."""

    folder: str


class Back(msgspec.Struct, frozen=True):
    """The workspace's `.halo/` is there again."""

    folder: str


Event = Built | Failed | Gone | Diagnostic | Watching | Lost | Back
