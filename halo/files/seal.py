"""Proof that a record was made by this user on this machine.

What lies in a workspace may have come with it: a clone can carry a `build/` folder or a session that was
forced into git. Records that Halo acts upon without looking again carry a seal, keyed with a secret that
never leaves Halo's home. A missing or wrong seal is no error: the record counts as absent.
"""

import os

try:  # `hashlib` would load OpenSSL, which is a fourth of the time of a short command
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

_NAME = "machine.key"
_BYTES = 32


def machine_key(home: str, *, make: bool = False) -> bytes | None:
    """Return the secret of this machine, None when there is none (yet).

    With `make` it is created, readable by the user alone; None where the home cannot be written.
    """
    path = os.path.join(home, _NAME)
    try:
        with open(path, "rb") as file:
            key = file.read(_BYTES)
        if len(key) == _BYTES:
            return key
    except OSError:
        pass  # absent, or not ours to read: either way there is no secret
    return _make(home, path) if make else None


def _make(home: str, path: str) -> bytes | None:
    from halo.files.atomic import create_file

    try:
        os.makedirs(home, exist_ok=True)
        create_file(path, os.urandom(_BYTES), mode=0o600, sync=True)
    except OSError:
        return None
    return machine_key(home)  # the winner's, if two processes made one


def seal(key: bytes, data: bytes) -> str:
    """Seal `data`: 32 hex digits of keyed BLAKE2b."""
    return blake2b(data, key=key, digest_size=16).hexdigest()
