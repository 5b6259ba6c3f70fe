"""Bundles: the artifacts of a workspace in one file, so that they run where no layers exist.

The file is an uncompressed USTAR archive: `bundle.json`, then the two files of every artifact in the order of
their ids. Names, order and headers follow from the content, so the same artifacts make the same bytes, and a
reader needs to accept nothing else: what does not look exactly so (a link, a device, another name, a second
time, a byte too many) is no bundle. Nothing in it is compressed, so it holds no more than it seems to.
"""

import os
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from halo.build.builder import Builder
from halo.build.bundled import FORMAT, LARGEST, Bundle, Bundled
from halo.build.store import FILES, Store, artifact_id
from halo.compiler.version import COMPILER
from halo.errors import ArtifactError, TreeError
from halo.files.canonical import readable_json
from halo.files.tree_base import check_relative
from halo.files.visible import visible
from halo.records.artifacts import FORMAT as ARTIFACT_FORMAT
from halo.records.artifacts import Manifest
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.ids import is_id
from halo.workspace.locate import BUNDLE

_BLOCK = 512  # bytes; members of an archive begin at multiples of it
_LARGEST_FILE = 1 << 28  # bytes of a file of an artifact
_LARGEST_BUNDLE = 1 << 32  # bytes
_END = bytes(2 * _BLOCK)  # what ends an archive


class Files(NamedTuple):
    """The two files of an artifact, verified."""

    id: str
    manifest: bytes
    prompt: bytes


def make_bundle(builder: Builder, targets: list[Target]) -> Bundle:
    """Build what is stale of `targets` and list their artifacts.

    Raises what the compiler raises, and `ArtifactError` when a layer changes meanwhile: the prompts of a
    bundle belong to one state of the workspace.
    """
    found = [(target, builder.ensure(target)) for target in targets]
    for target, artifact in found:
        now = builder.status(target).artifact
        if now is None or now.id != artifact.id:
            raise ArtifactError(
                f"the layers of {target.label} changed while the bundle was made", hint="make it again"
            )
    entries = (Bundled(target, artifact.id, artifact.manifest.fingerprint) for target, artifact in found)
    return Bundle(FORMAT, COMPILER, tuple(sorted(entries, key=lambda entry: entry.target.name)))


def pack(bundle: Bundle, store: Store) -> Iterator[bytes]:
    """Yield the bytes of the file. Raises `ArtifactError` for an artifact that is not whole."""
    yield from _member(BUNDLE, readable_json(bundle))
    for identity in _ids(bundle):
        store.load(identity)  # verified
        for name, path in zip(FILES, reversed(store.files(identity)), strict=True):
            with open(path, "rb") as file:
                yield from _member(f"artifacts/{identity}/{name}", file.read())
    yield _END


def open_bundle(path: str) -> BinaryIO:
    """Open a bundle for reading. Raises OSError, and `ArtifactError` for what cannot be one by its size."""
    # Without O_NONBLOCK a FIFO would wait for somebody to write.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(descriptor, "rb")
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_BUNDLE:
        file.close()
        raise ArtifactError(
            f"a bundle is a regular file of at most {_LARGEST_BUNDLE:,} bytes, which this is not", file=path
        )
    return file


def read_list(file: BinaryIO, path: str) -> Bundle:
    """Read the beginning of a bundle: which targets it has. `path` is for messages.

    Raises `ArtifactError`.
    """
    file.seek(0)
    data = _take_member(file, path, BUNDLE, LARGEST)
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(path, f"its {BUNDLE} cannot be read ({error})") from error
    if bundle.format != FORMAT:
        raise ArtifactError(
            f"this bundle has format {bundle.format}, this version of Halo reads {FORMAT}", file=path
        )
    if bundle.seal or readable_json(bundle) != data:
        raise _damaged(path, f"its {BUNDLE} is not as Halo writes it")
    names = [entry.target.name for entry in bundle.targets]
    if names != sorted(set(names)):
        raise _damaged(path, "its targets are not in order, or one stands there twice")
    for entry in bundle.targets:
        _check_target(entry.target, path)
    return bundle


def read_artifacts(file: BinaryIO, path: str, bundle: Bundle) -> Iterator[Files]:
    """Yield what follows the list, each artifact verified against its id and its entry, to the very end.

    Raises `ArtifactError` for anything that does not belong there.
    """
    entries: dict[str, list[Bundled]] = {}
    for entry in bundle.targets:
        entries.setdefault(entry.artifact, []).append(entry)
    for identity in _ids(bundle):
        manifest, prompt = (
            _take_member(file, path, f"artifacts/{identity}/{name}", _LARGEST_FILE) for name in FILES
        )
        if artifact_id(prompt, manifest) != identity:
            raise _damaged(path, f"artifact {identity[:12]} is not the one that its id stands for")
        _check_artifact(path, prompt, manifest, bundle.compiler, entries[identity])
        yield Files(identity, manifest, prompt)
    if file.read(len(_END) + 1) != _END:
        raise _damaged(path, "it does not end where it should")


def _ids(bundle: Bundle) -> list[str]:
    return sorted({entry.artifact for entry in bundle.targets})


def _header(name: str, size: int) -> bytes:
    """Write the header of a regular file: mode 0644, owner and time 0. By hand, so that it never changes."""
    zero, octal = b"%07o\0" % 0, b"%011o\0"
    fields = (name.encode(), b"%07o\0" % 0o644, zero, zero, octal % size, octal % 0, b" " * 8, b"0", b"")
    block = struct.pack("100s8s8s8s12s12s8s1s100s8s", *fields, b"ustar\x0000").ljust(_BLOCK, b"\0")
    return b"%b%06o\0 %b" % (block[:148], sum(block), block[156:])


def _member(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data
    yield bytes(-len(data) % _BLOCK)


def _take_member(file: BinaryIO, path: str, name: str, limit: int) -> bytes:
    """Read the member `name`, which must come now, in `limit` bytes at most."""
    header = file.read(_BLOCK)
    size = _size(header)
    if size is None or size > limit or header != _header(name, size):
        raise _damaged(path, f"{name} should stand at byte {file.tell() - len(header):,}")
    data = file.read(size)
    padding = -size % _BLOCK
    if len(data) != size or file.read(padding) != bytes(padding):
        raise _damaged(path, f"{name} is cut short")
    return data


def _size(header: bytes) -> int | None:
    field = header[124:135]
    return int(field, 8) if len(header) == _BLOCK and field.isdigit() and max(field) < ord("8") else None


def _check_target(target: Target, path: str) -> None:
    """Refuse ids and directories that the compiler could not have had."""
    try:
        match target:
            case AgentTarget():
                sound = is_id(target.agent)
                check_relative(target.directory or "x")
            case SkillTarget():
                sound = is_id(target.id)
            case ScopeTarget():
                sound = True
                check_relative(target.directory)
    except TreeError as error:
        raise _damaged(path, error.message) from error
    if not sound:
        raise _damaged(path, f"{target.name[:80]!r} is no target")


def _check_artifact(path: str, prompt: bytes, record: bytes, compiler: str, entries: list[Bundled]) -> None:
    """Refuse an artifact that this version cannot run, or that belongs to another target than it says."""
    try:
        manifest = msgspec.json.decode(record, type=Manifest)
        prompt.decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _damaged(path, f"an artifact cannot be read ({error})") from error
    if manifest.compiler != compiler:
        raise _damaged(path, f"its list does not say what an artifact does: {visible(manifest.compiler)}")
    for entry in entries:
        target = entry.target
        fits = (
            manifest.format == ARTIFACT_FORMAT
            and (manifest.target, manifest.fingerprint) == (target, entry.fingerprint)
            and (manifest.runtime is not None or not isinstance(target, AgentTarget))
            and (manifest.segments or not isinstance(target, SkillTarget))
        )
        if not fits:
            raise _damaged(path, f"the artifact of {target.label} is of another kind than its entry")
    edges = [0, *(edge for slot in manifest.slots for edge in (slot.start, slot.end)), len(prompt)]
    prefix = manifest.static_prefix.bytes
    if edges != sorted(edges) or not all(_between(prompt, edge) for edge in (*edges, prefix)):
        raise _damaged(path, "an artifact has slots where none can be")


def _between(prompt: bytes, edge: int) -> bool:
    """Tell whether `edge` lies within the text and not inside a character."""
    return 0 <= edge <= len(prompt) and (edge == len(prompt) or prompt[edge] & 0xC0 != 0x80)


def _damaged(path: str, what: str) -> ArtifactError:
    return ArtifactError(
        f"this is not a whole bundle of Halo: {what}",
        file=path,
        hint="nothing was unpacked; make it again with halo bundle",
    )
