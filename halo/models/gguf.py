"""Is a model file whole? Read from the file itself, before an engine loads it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian): magic,
version, counts, metadata, tensor infos, padding, tensor data. A file that was cut short has a good head, so
the tensor table decides how long the file must be. Counts are bounded before anything is read by them.
"""

import os
import struct
import time
from typing import BinaryIO

import msgspec

from halo.errors import ModelFileError
from halo.files.atomic import replace_file
from halo.files.digests import sha256, sha256_file
from halo.files.stamps import Stamp, is_racy, stamp

_FORMAT = 1  # of the side file that keeps a digest

_MAX_METADATA = 1 << 16
_MAX_TENSORS = 1 << 20
_MAX_DIMS = 8
_MAX_NAME = 1 << 16
_MAX_ITEMS = 1 << 24  # of one array; the largest vocabularies have 2^18 entries

_STRING, _ARRAY = 8, 9
_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by value type

# Elements and bytes of a block by tensor type (ggml.h, ggml-common.h). A type that is not here is newer
# than this table; its tensors are only checked to begin inside the file.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


class GgufInfo(msgspec.Struct, frozen=True):
    """What the head says. `context_length` in tokens is what the model was trained for, 0 if not said."""

    version: int
    tensors: int
    context_length: int
    length: int


class _Kept(msgspec.Struct, frozen=True):
    """The side file: the digest of a file that was whole, as long as its stamp stays."""

    format: int
    stamp: Stamp
    sha256: str
    context_length: int


class ModelFile(msgspec.Struct, frozen=True):
    """A model file that is whole; `context_length` as in `GgufInfo`."""

    path: str
    sha256: str
    context_length: int


def verify(path: str, cache: str) -> ModelFile:
    """Check the file and return its SHA-256, both remembered under `cache` until its stat stamp changes.

    Raises ModelFileError when it is absent or not whole, OSError.
    """
    side = os.path.join(cache, "digests", sha256(os.path.abspath(path).encode()) + ".json")
    recorded = time.time_ns()
    now = stamp(path)
    if now is None:
        raise ModelFileError("no such model file", file=path)
    kept = _kept(side)
    if kept is not None and kept.stamp == now:
        return ModelFile(path, kept.sha256, kept.context_length)
    info = check(path)
    found = ModelFile(path, sha256_file(path), info.context_length)
    if not is_racy(now, recorded):
        entry = _Kept(_FORMAT, now, found.sha256, found.context_length)
        try:
            replace_file(side, msgspec.json.encode(entry), mode=0o600)
        except OSError:
            return found  # it only saves the next call a second
    return found


def check(path: str) -> GgufInfo:
    """Read the head and compare the file's length with it. Raises ModelFileError that says what is wrong."""
    try:
        with open(path, "rb") as file:
            return _Head(file, path).read()
    except IsADirectoryError as error:
        raise ModelFileError("this is a directory, not a model file", file=path) from error


def _kept(side: str) -> _Kept | None:
    try:
        with open(side, "rb") as file:
            kept = msgspec.json.decode(file.read(), type=_Kept)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None  # derived: absent or damaged means compute it again
    return kept if kept.format == _FORMAT else None


class _Head:
    """Reads the head of one file; memory stays within the buffer of the file object."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._length = os.fstat(file.fileno()).st_size
        self._context_length = 0
        self._alignment = 32

    def read(self) -> GgufInfo:
        if self._file.read(4) != b"GGUF":
            raise self._error("this is not a GGUF model file", "use a file in GGUF format")
        (version,) = self._unpack("<I")
        if version not in (2, 3):
            raise self._error(f"GGUF version {version} is not supported", "use a file of version 2 or 3")
        tensors, metadata = self._unpack("<QQ")
        self._bound("tensors", tensors, _MAX_TENSORS)
        self._bound("metadata entries", metadata, _MAX_METADATA)
        for _ in range(metadata):
            self._metadata()
        end = max([self._tensor() for _ in range(tensors)], default=0)
        start = -(-self._file.tell() // self._alignment) * self._alignment
        if start + end > self._length:
            raise self._cut(start + end)
        return GgufInfo(version, tensors, self._context_length, start + end)

    def _metadata(self) -> None:
        key = self._string()
        (kind,) = self._unpack("<I")
        wanted = key == "general.alignment" or key.endswith(".context_length")
        if wanted and kind in (4, 10):
            (value,) = self._unpack("<I" if kind == 4 else "<Q")
            if key == "general.alignment":
                if not 0 < value <= 1 << 20 or value & (value - 1):
                    raise self._error(f"alignment {value} makes no sense")
                self._alignment = value
            else:
                self._context_length = value
            return
        self._skip_value(kind)

    def _skip_value(self, kind: int) -> None:
        if kind == _STRING:
            self._skip(self._unpack("<Q")[0])
        elif kind == _ARRAY:
            item, count = self._unpack("<IQ")
            self._bound("items in an array", count, _MAX_ITEMS)
            if item in _SCALARS:
                self._skip(count * _SCALARS[item])
            elif item == _STRING:
                for _ in range(count):
                    self._skip(self._unpack("<Q")[0])
            else:
                raise self._error(f"an array holds values of the unknown type {item}")
        elif kind in _SCALARS:
            self._skip(_SCALARS[kind])
        else:
            raise self._error(f"a metadata value has the unknown type {kind}")

    def _tensor(self) -> int:
        """Read one tensor info and return where its data ends, counted from the start of the data."""
        name = self._string()
        (dims,) = self._unpack("<I")
        self._bound(f"dimensions of {name}", dims, _MAX_DIMS)
        elements = 1
        for size in self._unpack(f"<{dims}Q"):
            elements *= size
        kind, offset = self._unpack("<IQ")
        per_block, block_bytes = _BLOCKS.get(kind, (1, 0))
        return int(offset + -(-elements // per_block) * block_bytes)

    def _string(self) -> str:
        (length,) = self._unpack("<Q")
        self._bound("bytes of a name", length, _MAX_NAME)
        return self._take(length).decode("utf-8", "replace")

    def _unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise self._cut(self._file.tell() + count - len(data))
        return data

    def _skip(self, count: int) -> None:
        end = self._file.tell() + count
        if end > self._length:
            raise self._cut(end)
        self._file.seek(end)

    def _bound(self, what: str, value: int, most: int) -> None:
        if value > most:
            raise self._error(f"the head claims {value:,} {what}")

    def _cut(self, needed: int) -> ModelFileError:
        return self._error(f"the model file is cut short: {self._length:,} bytes of at least {needed:,}")

    def _error(
        self, what: str, hint: str = "fetch it again (`halo model rm NAME`, `halo model pull NAME`)"
    ) -> ModelFileError:
        return ModelFileError(what, file=self._path, hint=hint)
