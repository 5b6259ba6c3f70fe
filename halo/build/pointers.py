"""Pointers: `build/<target>.json` says which artifact a target has and what was consulted for it."""

import os
from collections.abc import Iterator

import msgspec

from halo.files.canonical import readable_json
from halo.files.regular import read_regular
from halo.files.seal import machine_key, seal
from halo.records.artifacts import FORMAT, Pointer
from halo.records.targets import Target

_LARGEST = 1 << 26  # bytes of a pointer


class Pointers:
    """`.halo/build/` of one workspace. It may be deleted at any time.

    `halo` is the absolute path of the `.halo/` folder, `home` that of Halo's home, which holds the key that
    pointers are sealed with.
    """

    def __init__(self, halo: str, home: str) -> None:
        self.folder = os.path.join(halo, "build")
        self._home = home

    def path(self, target: Target) -> str:
        """Return the absolute path of a target's pointer."""
        return self._path(target.name)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, *name.split("/")) + ".json"

    def read(self, target: Target) -> Pointer | None:
        """Read a pointer; one that is absent, unreadable, of another format or not sealed here is None.

        That costs a compile, never a wrong answer.
        """
        pointer = self.named(target.name)
        # Encoded names may be cut and digested, so the target itself decides.
        return pointer if pointer is not None and pointer.target == target else None

    def named(self, name: str) -> Pointer | None:
        """Read the pointer of the target with this name, under the same conditions."""
        key = machine_key(self._home)
        try:
            data = read_regular(self._path(name), _LARGEST)
            pointer = msgspec.json.decode(data, type=Pointer)
        except (OSError, msgspec.MsgspecError, RecursionError):
            return None
        if pointer.format != FORMAT or pointer.target.name != name or key is None:
            return None
        return pointer if _sealed(key, data) == data else None

    def write(self, pointer: Pointer) -> None:
        """Replace a target's pointer, sealed. Not fsynced: it is rebuilt at will."""
        from halo.files.atomic import replace_file

        key = machine_key(self._home, make=True)
        data = readable_json(msgspec.structs.replace(pointer, seal=_BLANK))
        replace_file(self.path(pointer.target), data if key is None else _sealed(key, data))

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


_BLANK = "0" * 32
# A line of the outermost object: no other begins so, for a newline within a string is escaped.
_FIELD = b'\n  "seal": "'


def _sealed(key: bytes, data: bytes) -> bytes:
    """Return the file with the seal that it should have: that of its bytes with a blank one."""
    before, field, after = data.partition(_FIELD)
    blank = before + field + _BLANK.encode() + after[len(_BLANK) :]
    return before + field + seal(key, blank).encode() + after[len(_BLANK) :]
