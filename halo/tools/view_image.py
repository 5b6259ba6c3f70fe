"""`view_image`: a picture, of a size that models take."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from halo.records.messages import Image
from halo.tools.base import Answer, Surroundings, ToolFailure
from halo.tools.paths import locate, read_bytes

_LARGEST = 32 * 1024 * 1024  # bytes of a file
_EDGE = 1568  # pixels of the long edge: more is scaled down by providers, and paid for
_SENT = 5 * 1024 * 1024  # characters of base64
_PIXELS = 50_000_000  # that are decoded
_MEMORY = (
    1536 * 1024 * 1024
)  # bytes for that; 50 million pixels with transparency take 200 MB, some at a time
_SECONDS = 20
_CHILD = os.path.join(os.path.dirname(__file__), "image_child.py")


def view_image(arguments: Mapping[str, Any], around: Surroundings) -> Answer:
    """Return the picture with a line that says what it is.

    What it is, its bytes say, not its name. It is decoded, in a process of its own that native code may
    crash, and written anew, without what else the file holds.
    """
    place = locate(arguments["path"], around)
    data = read_bytes(place, _LARGEST + 1)
    if len(data) > _LARGEST:
        raise ToolFailure(f"{place.shown} is larger than {_LARGEST >> 20} MiB")
    form = form_of(data)
    if form is None:
        raise ToolFailure(f"{place.shown} is no picture that can be shown: png, jpeg, gif and webp can")
    seen = _decoded(place.shown, data, form)
    text = f"{place.shown}: {form}, {_pixels(seen.size)} pixels, {_kib(len(data))}"
    if seen.moves:
        text += "; it moves, the first frame is shown"
    if seen.shown != seen.size:
        text += f"; scaled to {_pixels(seen.shown)} pixels"
    return Answer(text, (Image(f"image/{seen.form}", base64.b64encode(seen.data).decode()),))


def form_of(data: bytes) -> str | None:
    """Say what kind of picture begins like this; None for what is none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return None


class _Decoded(NamedTuple):
    """A picture as it is sent: `size` upright, and in what size and form it is shown."""

    size: tuple[int, int]
    moves: bool
    shown: tuple[int, int]
    form: str
    data: bytes


def _decoded(shown: str, data: bytes, form: str) -> _Decoded:
    """Have the picture decoded, scaled if it is too large, and written anew."""
    options = {
        "path": _pillow(),
        "form": form,
        "edge": _EDGE,
        "bytes": _SENT // 4 * 3,
        "pixels": _PIXELS,
        "memory": _MEMORY,
        "seconds": int(_SECONDS) + 2,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _CHILD, json.dumps(options)],
            input=data,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailure(f"{shown} takes more than {_SECONDS} seconds to decode") from None
    head, _, picture = done.stdout.partition(b"\n")
    try:
        said = json.loads(head)
    except ValueError:
        raise ToolFailure(f"{shown} cannot be decoded: the process that tried has died") from None
    if "wrong" in said:
        raise ToolFailure(f"{shown} {said['wrong']}")
    size, sent = ((int(width), int(height)) for width, height in (said["size"], said["shown"]))
    return _Decoded(size, bool(said["moves"]), sent, said["form"], picture)


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _pillow() -> str:
    """Return the folder that Pillow lies in."""
    import importlib.util

    found = importlib.util.find_spec("PIL")
    if found is None or found.origin is None:
        raise ToolFailure(
            "pictures cannot be looked at: the package Pillow is missing; the user can install it with "
            "pip install 'halo-make[images]'"
        )
    return os.path.dirname(os.path.dirname(found.origin))


def _kib(size: int) -> str:
    return f"{size:,} bytes" if size < 1024 else f"{size / 1024:,.0f} KiB"
