"""The process that decodes a picture; started by `view_image`, which tells why.

It is run as a file, isolated and without site-packages, and imports nothing of Halo. Argument: JSON with
`path` (folder of Pillow), `form` (the only one that is tried), `edge` (pixels of the long edge), `bytes` (of
what is given back), `pixels` (that are decoded), `memory` (bytes) and `seconds` (of processor time). The
picture comes on stdin. Out: a line of JSON, and after it the picture. It is always written anew: what lies
in a file beside its pixels (where a photo was taken, by whom, a hidden thumbnail) is nobody's business.

    {"size": [w, h], "moves": false, "form": "jpeg", "shown": [w, h]}
    {"wrong": message}                                      to follow the name of the file

`size` is that of the picture upright; `moves`: it has more frames than the first, which is shown.
"""

import io
import json
import sys
import warnings
from typing import Any

# What puts a picture upright, by its orientation in EXIF.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_QUALITIES = (90, 75, 60, 45, 30)


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
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the size is looked at here, before anything is decoded
    with Image.open(io.BytesIO(data), formats=[options["form"].upper()]) as image:
        size = image.size
        if size[0] * size[1] > options["pixels"]:
            _say({"wrong": f"has {size[0]} x {size[1]} pixels; {options['pixels']:,} can be decoded"})
            return
        scaled = max(size) > options["edge"]
        if scaled:
            image.draft(None, (options["edge"], options["edge"]))  # a jpeg is decoded smaller at once
        image.load()
        small = _full_colour(image)
        small.thumbnail((options["edge"], options["edge"]), Image.Resampling.LANCZOS)
        orientation = _orientation(image)
        if orientation in _UPRIGHT:
            small = small.transpose(Image.Transpose[_UPRIGHT[orientation]])
            size = size[::-1] if orientation >= 5 else size  # it lay on its side
        small.info.clear()  # writers would copy profiles and comments from there
        made = _packed(small, options["bytes"], exact=not scaled and options["form"] != "jpeg")
        moves = options["form"] != "jpeg" and getattr(image, "is_animated", False)
    if made is None:
        _say({"wrong": "cannot be made small enough to be sent"})
        return
    form, picture = made
    _say({"size": size, "moves": moves, "form": form, "shown": small.size}, picture)


def _orientation(image: Any) -> int:
    """Return how it was held (EXIF); 1, upright, where that cannot be read: its pixels are whole."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # noqa: BLE001  # metadata may be as broken as anything
        return 1


def _full_colour(image: Any) -> Any:
    """Return it in colours, or in colours and transparency: palettes cannot be scaled."""
    if image.mode.startswith("I"):  # 16 bits of grey, which `convert` would cut off at 255
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    clear = "A" in image.getbands() or "transparency" in image.info
    wanted = "RGBA" if clear else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _packed(image: Any, most: int, *, exact: bool) -> tuple[str, bytes] | None:
    """Write it as png, if it is `exact` or has transparent parts and that is small enough; else as jpeg."""
    if exact or image.mode == "RGBA":
        made = io.BytesIO()
        image.save(made, "PNG")
        if made.tell() <= most:
            return "png", made.getvalue()
    if image.mode == "RGBA":
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
