"""Pointers: `build/<target>.json` says which artifact a target has and what was consulted for it."""

import os
from collections.abc import Iterator

import msgspec

from halo.files.canonical import readable_json
from halo.records.artifacts import FORMAT, Pointer
from halo.records.targets import Target


class Pointers:
    """`.halo/build/` of one workspace. It may be deleted at any time."""

    def __init__(self, halo: str) -> None:
        self.folder = os.path.join(halo, "build")

    def path(self, target: Target) -> str:
        """Return the absolute path of a target's pointer."""
        return os.path.join(self.folder, *target.name.split("/")) + ".json"

    def read(self, target: Target) -> Pointer | None:
        """Read a pointer; one that is absent, unreadable or of another format counts as absent.

        That costs a compile, never a wrong answer.
        """
        try:
            with open(self.path(target), "rb") as file:
                pointer = msgspec.json.decode(file.read(), type=Pointer)
        except (OSError, msgspec.MsgspecError):
            return None
        # Encoded names may be cut and digested, so the target itself decides.
        return pointer if pointer.format == FORMAT and pointer.target == target else None

    def write(self, pointer: Pointer) -> None:
        """Replace a target's pointer. Not fsynced: it is rebuilt at will."""
        from halo.files.atomic import replace_file

        replace_file(self.path(pointer.target), readable_json(pointer))

    def orphans(self, targets: set[str]) -> Iterator[str]:
        """Find pointers and gates (absolute paths) whose target is not among these names.

        Targets made on request, such as `root@docs`, stay as long as their agent exists.
        """
        agents = {name.split("/", 1)[0] for name in targets}
        for folder, _, names in os.walk(self.folder):
            relative = os.path.relpath(folder, self.folder).replace(os.sep, "/")
            for name in names:
                stem, extension = os.path.splitext(name)
                if relative == "." or extension not in (".json", ".gate"):
                    continue
                target = f"{relative}/{stem}"
                kept = relative in agents and relative not in ("skills", "scopes")
                if target not in targets and not kept:
                    yield os.path.join(folder, name)
