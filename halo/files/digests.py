"""SHA-256 of bytes, files and directory listings, in lower-case hex."""

import hashlib
from collections.abc import Iterable

_BLOCK = 1 << 20  # bytes a read; large enough that hashing dominates, small enough for any machine


def sha256(data: bytes) -> str:
    """Return the digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str) -> str:
    """Return the digest of the file at `path`, read in blocks of 1 MiB. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def listing_digest(entries: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a directory's (name, kind) pairs, in whatever order they come.

    File content is left out on purpose: a listing is an input so that a *new* file is noticed.
    """
    digest = hashlib.sha256()
    for name, kind in sorted(entries):
        # NUL cannot stand in a name, so two different listings never spell the same bytes.
        digest.update(f"{kind}\0{name}\0".encode())
    return digest.hexdigest()
