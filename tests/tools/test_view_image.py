"""view_image: what it shows of a picture, and which pictures it refuses. Pillow makes and checks them."""

import base64
import io
import os
import struct
import time
import zlib

import pytest
from PIL import Image as Pillow

from halo.tools import view_image as module
from halo.tools.view_image import form_of


def made(form, size=(40, 30), mode="RGB", colour=None, **options):
    """Return the bytes of a picture."""
    image = Pillow.new(mode, size, colour if colour is not None else 0)
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def noise(size, form, mode="RGB", **options):
    """Return the bytes of a picture that cannot be packed well."""
    image = Pillow.frombytes(mode, size, os.urandom(size[0] * size[1] * len(mode)))
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def look(bench, path):
    """Look at a picture; return the text, the media type and the bytes that the model is given."""
    result = bench.call("view_image", path=path)
    assert not result.is_error, result.text
    (image,) = result.images
    data = base64.b64decode(image.data, validate=True)
    assert len(image.data) <= 5 * 1024 * 1024
    return result.text, image.media_type, data


def opened(data):
    image = Pillow.open(io.BytesIO(data))
    image.load()
    return image


# What is shown


@pytest.mark.parametrize(
    ("form", "mode"), [("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("GIF", "P"), ("WEBP", "RGBA")]
)
def test_a_small_picture_loses_nothing(bench, form, mode):
    options = {"lossless": True, "exact": True} if form == "WEBP" else {}
    data = made(form, (40, 30), mode) if mode == "P" else noise((40, 30), form, mode, **options)
    bench.write({"a": data})
    text, media_type, sent = look(bench, "a")
    assert media_type == "image/png"
    assert opened(sent).convert("RGBA").tobytes() == opened(data).convert("RGBA").tobytes()
    assert text == f"a: {form.lower()}, 40 x 30 pixels, {module._kib(len(data))}"


def test_a_small_jpeg_stays_one(bench):
    bench.write({"a": made("JPEG", (40, 30), colour=(200, 100, 50))})
    _, media_type, sent = look(bench, "a")
    assert media_type == "image/jpeg"
    assert opened(sent).size == (40, 30)
    assert all(abs(x - y) < 8 for x, y in zip(opened(sent).getpixel((9, 9)), (200, 100, 50), strict=True))


def private(form):
    """A picture that says more than its pixels."""
    from PIL.PngImagePlugin import PngInfo

    exif = Pillow.Exif()
    exif[0x013B] = "ANN'S CAMERA"
    exif.get_ifd(0x8825)[1] = "N 59 54"
    options = {"exif": exif, "icc_profile": b"ANN'S PROFILE" * 20}
    if form == "PNG":
        words = PngInfo()
        words.add_text("Comment", "ANN'S COMMENT")
        options["pnginfo"] = words
    if form in ("JPEG", "GIF"):
        options["comment"] = "ANN'S COMMENT"
    return made(form, (40, 30), "P" if form == "GIF" else "RGB", **options) + b"ANN'S TAIL"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("large", [False, True])
def test_what_stands_beside_the_pixels_is_not_sent(bench, form, large, monkeypatch):
    data = private(form)
    assert b"ANN'S" in data
    if large:
        monkeypatch.setattr(module, "_EDGE", 20)
    bench.write({"a": data})
    sent = look(bench, "a")[2]
    assert b"ANN" not in sent
    assert not opened(sent).getexif()
    assert set(opened(sent).info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_what_it_is_its_bytes_say(bench):
    bench.write({"photo.jpg": made("PNG")})
    text, media_type, _ = look(bench, "photo.jpg")
    assert text.startswith("photo.jpg: png, ")
    assert media_type == "image/png"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_large_picture_is_scaled_to_1568_pixels(bench, form):
    bench.write({"a": made(form, (3000, 1500), "P" if form == "GIF" else "RGB")})
    text, media_type, sent = look(bench, "a")
    assert opened(sent).size == (1568, 784)
    assert media_type == "image/jpeg"
    assert text.startswith(f"a: {form.lower()}, 3000 x 1500 pixels, ")
    assert text.endswith("; scaled to 1568 x 784 pixels")


@pytest.mark.parametrize("size", [(1568, 100), (100, 1568)])
def test_a_picture_of_just_that_size_stays(bench, size):
    bench.write({"a": made("PNG", size)})
    text, _, sent = look(bench, "a")
    assert opened(sent).size == size
    assert "scaled" not in text


@pytest.mark.parametrize("size", [(1569, 1), (1, 9000)])
def test_a_thin_picture_keeps_a_pixel(bench, size):
    bench.write({"a": made("PNG", size)})
    assert max(opened(look(bench, "a")[2]).size) == 1568


@pytest.mark.parametrize(
    ("mode", "colour"), [("RGBA", (255, 0, 0, 100)), ("LA", (9, 100)), ("P", (0, 255, 0, 100))]
)
def test_transparency_is_kept(bench, mode, colour):
    if mode == "P":
        image = Pillow.new("RGBA", (2000, 200), colour).quantize()
        out = io.BytesIO()
        image.save(out, "PNG")
        bench.write({"a": out.getvalue()})
    else:
        bench.write({"a": made("PNG", (2000, 200), mode, colour)})
    _, media_type, sent = look(bench, "a")
    assert media_type == "image/png"
    assert opened(sent).getpixel((5, 5))[3] < 255


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "CMYK", "YCbCr", "RGB"])
def test_every_kind_of_colour_can_be_scaled(bench, mode):
    form = "JPEG" if mode in ("CMYK", "YCbCr") else "PNG"
    bench.write({"a": made(form, (2000, 20), mode)})
    assert opened(look(bench, "a")[2]).mode == "RGB"


def test_sixteen_bits_of_grey_keep_their_brightness(bench):
    bench.write({"a": made("PNG", (2000, 20), "I;16", 0x8000)})
    assert opened(look(bench, "a")[2]).getpixel((5, 5)) == (128, 128, 128)


def test_a_picture_of_too_many_bytes_is_packed_anew(bench):
    """As it is small enough, it keeps its size."""
    data = noise((1500, 1000), "PNG")
    assert len(data) > 4_000_000
    bench.write({"a": data})
    text, media_type, sent = look(bench, "a")
    assert media_type == "image/jpeg"
    assert opened(sent).size == (1500, 1000)
    assert "scaled" not in text


def test_transparency_gives_way_to_size(bench):
    bench.write({"a": noise((1500, 1000), "PNG", "RGBA")})
    assert look(bench, "a")[1] == "image/jpeg"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(60, 20), (3000, 1000)])
def test_a_picture_is_put_upright_however_it_was_held(bench, orientation, size):
    """Pillow, which knows the eight ways, is asked what it should look like."""
    from PIL import ImageOps

    image = Pillow.new("RGB", size, "blue")
    image.paste("red", (0, 0, size[0] // 2, size[1] // 2))
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    image.save(out, "JPEG", exif=exif)
    bench.write({"a.jpg": out.getvalue()})
    text, _, sent = look(bench, "a.jpg")
    upright = ImageOps.exif_transpose(opened(out.getvalue()))
    assert f"jpeg, {upright.width} x {upright.height} pixels" in text
    shown = opened(sent)
    assert (shown.width > shown.height) == (upright.width > upright.height)
    for x, y in ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)):
        mine, right = (
            picture.getpixel((int(picture.width * x), int(picture.height * y)))
            for picture in (shown, upright)
        )
        assert (mine[0] > 128) == (right[0] > 128)


def test_an_orientation_that_cannot_be_read_costs_nothing(bench):
    for exif in (b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0"):
        bench.write({"a.jpg": made("JPEG", (40, 30), exif=exif)})
        assert opened(look(bench, "a.jpg")[2]).size == (40, 30)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
@pytest.mark.parametrize("size", [(20, 10), (2000, 100)])
def test_of_a_film_the_first_picture_is_shown(bench, form, size):
    frames = [Pillow.new("RGB", size, colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, form, save_all=True, append_images=frames[1:])
    bench.write({"a": out.getvalue()})
    text, _, sent = look(bench, "a")
    red, _, blue = opened(sent).convert("RGB").getpixel((5, 5))
    assert red > 200 > 50 > blue
    assert not getattr(opened(sent), "is_animated", False)
    assert "; it moves, the first frame is shown" in text


# What is refused


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"<svg/>",
        b"%PDF-1.4",
        b"BM" + b"\0" * 60,
        b"II*\0" + b"\0" * 60,
        b"RIFF\0\0\0\0WAVE",
        b"\0" * 99,
    ],
)
def test_what_is_no_such_picture(bench, data):
    bench.write({"a.png": data})
    assert "no picture that can be shown" in bench.refusal("view_image", path="a.png")
    assert form_of(data) is None


def damaged(form):
    whole = noise((60, 60), form) if form != "GIF" else made("GIF", (300, 300), "P")
    return [whole[: len(whole) // 2], whole[:20], whole[:12], whole[:30] + os.urandom(400)]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_what_cannot_be_decoded(bench, form):
    for data in damaged(form):
        bench.write({"a": data})
        refusal = bench.refusal("view_image", path="a")
        assert refusal.startswith(("a cannot be decoded", "a is no picture", "a has ")), refusal
        assert len(refusal.splitlines()) == 1


def test_a_picture_under_another_ones_name_inside_is_not_tried_with_other_decoders(bench):
    """The bytes say png; whatever else could read the rest is not asked."""
    bench.write({"a": b"\x89PNG\r\n\x1a\n" + made("GIF", mode="P")})
    assert "cannot be decoded" in bench.refusal("view_image", path="a")


def png(width, height, rows=b""):
    """A png by hand, that says any size."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("size", [(50_000, 1001), (2**31 - 1, 2**31 - 1), (60_000, 60_000)])
def test_a_bomb_is_refused_before_it_is_decoded(bench, size):
    bench.write({"a.png": png(*size)})
    start = time.monotonic()
    assert "50,000,000 can be decoded" in bench.refusal("view_image", path="a.png")
    assert time.monotonic() - start < 10


def test_a_large_one_within_the_limit_is_decoded(bench):
    """A few kilobytes that become 150 MB."""
    data = png(10_000, 4_900, bytes((10_000 * 3 + 1) * 4_900))
    assert len(data) < 200_000
    bench.write({"a.png": data})
    assert opened(look(bench, "a.png")[2]).size == (1568, 768)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only Linux enforces a limit of memory")
def test_memory_is_bounded(bench, monkeypatch):
    monkeypatch.setattr(module, "_MEMORY", 120 * 1024 * 1024)
    bench.write({"a.png": png(10_000, 4_900, bytes((10_000 * 3 + 1) * 4_900))})
    assert "memory" in bench.refusal("view_image", path="a.png") or os.uname().sysname != "Linux"


def test_time_is_bounded(bench, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.001)
    bench.write({"a.png": made("PNG")})
    assert "more than 0.001 seconds" in bench.refusal("view_image", path="a.png")


def test_a_decoder_that_crashes_costs_the_call_alone(bench, monkeypatch, tmp_path):
    child = tmp_path / "child.py"
    child.write_text("import os\nos.abort()\n")
    monkeypatch.setattr(module, "_CHILD", str(child))
    bench.write({"a.png": made("PNG")})
    assert "has died" in bench.refusal("view_image", path="a.png")


def test_a_file_that_is_too_large(bench, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 1 << 20)
    bench.write({"a.png": made("PNG") + b"\0" * (1 << 20)})
    assert bench.refusal("view_image", path="a.png") == "a.png is larger than 1 MiB"


def test_without_pillow_it_says_what_to_install(bench, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else find(name))
    bench.write({"a.png": made("PNG")})
    assert bench.refusal("view_image", path="a.png").endswith("pip install 'halo-make[images]'")


def test_the_usual_refusals(bench):
    bench.write({"d/x": "", ".halo/settings.yaml": made("PNG")})
    os.symlink(bench.secret, bench.root / "out.png")
    assert "does not exist" in bench.refusal("view_image", path="a.png")
    assert "is a folder" in bench.refusal("view_image", path="d")
    assert "leaves its root" in bench.refusal("view_image", path="out.png")
    assert "kept from models" in bench.refusal("view_image", path=".halo/settings.yaml")
