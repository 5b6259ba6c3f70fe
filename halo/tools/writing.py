"""How tools write files: below the workspace alone, past the guards, with a sentence for what goes wrong."""

import errno

from halo.errors import TreeError
from halo.files.roots import Admit
from halo.records.targets import permits
from halo.tools.base import Surroundings, ToolFailure, brief
from halo.tools.guards import why_not_written
from halo.tools.linked import other_names
from halo.tools.masks import hides
from halo.tools.paths import Place

_SAID = {
    errno.EISDIR: "is a folder; name a file in it",
    errno.ENOENT: "cannot be written: a folder on the way does not exist",
    errno.ENOTDIR: "cannot be written: what its path names as a folder is a file",
    errno.EACCES: "may not be written",
    errno.EPERM: "may not be written",
    errno.EROFS: "may not be written",
    errno.ETXTBSY: "is a program that runs just now, and may not be written",
    errno.ENAMETOOLONG: "has a part that is too long for a name",
    errno.ENOSPC: "cannot be written: the disk is full",
    errno.EDQUOT: "cannot be written: the disk is full",
    errno.EFBIG: "cannot be written: it would be larger than files may be",
    errno.ELOOP: "is a link that leads back to itself",
}


def check_writable(place: Place, around: Surroundings) -> None:
    """Refuse a place where nothing can be written, before anything is read or made."""
    if not permits(around.access, "workspace"):
        raise ToolFailure(f"{brief(place.shown)} cannot be written: this session may only read")
    if place.root is not around.workspace:
        raise ToolFailure(f"{brief(place.shown)} lies outside the workspace; only files in it can be written")


def guard(place: Place, around: Surroundings) -> Admit:
    """Return what refuses a real path that must not be written, whatever name or link leads to it."""
    check_writable(place, around)

    def admit(real: str) -> None:
        for name in (real, *other_names(real, place.links)):
            why = why_not_written(name, around.access)
            if not why and hides(place.hidden, name):
                why = "cannot be written: the user's settings hide it"
            if why:
                raise ToolFailure(f"{brief(place.shown)} {why}")

    return admit


def write_file(place: Place, data: bytes, around: Surroundings) -> None:
    """Put `data` in the place of a file, or make it and the folders above it.

    What the path really is decides, at the moment when it is open: links and other spellings do not help.
    """
    admit = guard(place, around)
    try:
        place.root.write(place.relative, data, admit)
    except TreeError as error:
        raise ToolFailure(f"{brief(place.shown)} {error.message}") from error
    except OSError as error:
        said = _SAID.get(error.errno or 0) or f"cannot be written: {error.strerror or type(error).__name__}"
        raise ToolFailure(f"{brief(place.shown)} {said}") from error


def text_bytes(text: str, what: str) -> bytes:
    """Return a text from a model as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolFailure(f"{what} holds a lone surrogate, which no text has; leave it out") from error
