"""The process that decodes a picture; started by `view_image`, which tells why.

It is run as a file, isolated and without site-packages, and imports nothing of Halo. Argument: JSON with
`path` (folder of Pillow), `form` (the only one that is tried), `edge` (pixels of the long edge), `bytes` (of
what is given back), `pixels` (that are decoded), `memory` (bytes) and `seconds` (of processor time). The
picture comes on stdin. Out: a line of JSON, and after it the picture if it had to be made anew.

    {"size": [w, h]}                                        it can stay as it is
    {"size": [w, h], "form": "jpeg", "shown": [w, h]}       what follows takes its place
    {"wrong": message}                                      to follow the name of the file
"""

import io
import json
import sys
import warnings
from typing import Any

_QUALITIES = (85, 70, 50, 30)


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    # The processor time is for the case that nobody is left to keep the deadline. macOS takes no RLIMIT_AS.
    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):  # not supported, or a lower one holds already
            continue


def _say(answer: dict[str, Any], picture: bytes = b"") -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + picture)
    sys.stdout.buffer.flush()


def _look(options: dict[str, Any], data: bytes) -> None:
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # the size is looked at here, before anything is decoded
    with Image.open(io.BytesIO(data), formats=[options["form"].upper()]) as image:
        size = image.size
        if size[0] * size[1] > options["pixels"]:
            _say({"wrong": f"has {size[0]} x {size[1]} pixels; {options['pixels']:,} can be decoded"})
            return
        fits = max(size) <= options["edge"] and len(data) <= options["bytes"]
        if not fits:
            image.draft(None, (options["edge"], options["edge"]))  # a jpeg is decoded smaller at once
        image.load()
        if fits:
            _say({"size": size})
            return
        small = ImageOps.exif_transpose(_full_colour(image))
        small.thumbnail((options["edge"], options["edge"]), Image.Resampling.LANCZOS)
        made = _packed(small, options["bytes"])
    if made is None:
        _say({"wrong": "cannot be made small enough to be sent"})
        return
    form, picture = made
    _say({"size": size, "form": form, "shown": small.size}, picture)


def _full_colour(image: Any) -> Any:
    """Return it in colours, or in colours and transparency: palettes cannot be scaled."""
    if image.mode.startswith("I"):  # 16 bits of grey, which `convert` would cut off at 255
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    clear = "A" in image.getbands() or "transparency" in image.info
    wanted = "RGBA" if clear else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _packed(image: Any, most: int) -> tuple[str, bytes] | None:
    """Write it as png if parts of it are transparent and that is small enough, else as jpeg."""
    if image.mode == "RGBA":
        made = io.BytesIO()
        image.save(made, "PNG")
        if made.tell() <= most:
            return "png", made.getvalue()
        from PIL import Image

        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image).convert("RGB")
    for quality in _QUALITIES:
        made = io.BytesIO()
        image.save(made, "JPEG", quality=quality)
        if made.tell() <= most:
            return "jpeg", made.getvalue()
    return None


def main() -> None:
    """Decode one picture."""
    options = json.loads(sys.argv[1])
    _limit(options["memory"], options["seconds"])
    sys.path.append(options["path"])
    warnings.simplefilter("ignore")
    try:
        _look(options, sys.stdin.buffer.read())
    except MemoryError:
        _say({"wrong": "takes too much memory to decode"})
    except Exception as error:  # noqa: BLE001  # whatever a broken or hostile picture drives the decoder to
        _say({"wrong": f"cannot be decoded: it is damaged, or no {options['form']} ({type(error).__name__})"})


if __name__ == "__main__":
    main()
