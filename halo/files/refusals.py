"""What helps when the system refuses to write or read: said once, for every message that has it."""

import errno

_FULL = "make room on the disk and try again; what was acknowledged is safe"
_READ_ONLY = "the file system is read-only: mount it for writing, or work on a copy"
_PERMISSIONS = "check the permissions of the file, and whose it is"

_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EMFILE: "allow the process more open files (ulimit -n), or run fewer turns at once",
}


def what_helps(error: OSError) -> str:
    """Return what the user can do about an error of the system; empty where it says all itself."""
    return _HINTS.get(error.errno or 0, "")
