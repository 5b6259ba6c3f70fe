"""Is a model file whole? Real truncations, hand-made heads and hostile counts."""

import contextlib
import os
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import ModelFileError
from halo.files.digests import sha256
from halo.models import gguf


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def small(*, version=3, dims=(64, 2), kind=2, offset=0, data=72, extra=b"", metadata=0):
    """A GGUF file of one q4_0 tensor: 128 elements in 4 blocks of 18 bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, 1, 4 + metadata)
    head += entry("general.alignment", 4, struct.pack("<I", 64))
    head += entry("llama.context_length", 4, struct.pack("<I", 2048))
    head += entry(
        "tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + string("a") + string("bc") + string("")
    )
    head += entry("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 3) + bytes(12))
    head += extra
    head += string("blk.0") + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
    head += struct.pack("<IQ", kind, offset)
    head += bytes(-len(head) % 64)
    return head + bytes(data)


def write(tmp_path, data):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    return str(path)


def test_a_whole_file_passes(tmp_path):
    info = gguf.check(write(tmp_path, small()))
    assert (info.tensors, info.context_length, info.length) == (1, 2048, len(small()))


def test_every_truncation_is_noticed(tmp_path):
    data = small()
    for length in range(len(data)):
        path = write(tmp_path, data[:length])
        with pytest.raises(ModelFileError) as error:
            gguf.check(path)
        assert path in str(error.value)
        assert "Traceback" not in str(error.value)


@pytest.mark.parametrize("keep", [0, 3, 24, 5_000, 1_500_000, 50_000_000, -1])
def test_the_real_model_cut_short(model_file, tmp_path, keep):
    size = os.path.getsize(model_file)
    path = tmp_path / "cut.gguf"
    length = keep if keep >= 0 else size + keep
    with open(model_file, "rb") as file:
        path.write_bytes(file.read(min(length, 4_000_000)))
    os.truncate(path, length)  # sparse beyond the head, which is all that is read
    with pytest.raises(ModelFileError, match=r"cut short|not a GGUF"):
        gguf.check(str(path))


def test_the_real_model_is_whole(model_file):
    info = gguf.check(model_file)
    assert info.length == os.path.getsize(model_file)
    assert info.context_length == 8192


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a GGUF"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 1), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**40), "metadata"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**40), "bytes of a name"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 8, struct.pack("<Q", 2**62)), "cut short"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 9, struct.pack("<IQ", 10, 2**50)),
            "items in an array",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 9, struct.pack("<IQ", 8, 2**23)), "cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 9, struct.pack("<IQ", 9, 4)), "unknown type 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 77, b""), "unknown type 77"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("general.alignment", 4, struct.pack("<I", 0)),
            "alignment 0",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + string("t") + struct.pack("<I", 2**31), "dimensions"),
        (small(dims=(2**60, 2**60)), "cut short"),
        (small(offset=2**60), "cut short"),
    ],
)
def test_garbage_and_hostile_heads_cost_no_memory(tmp_path, data, says):
    path = write(tmp_path, data)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=says):
            gguf.check(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_make_it_fail_in_another_way(tmp_path_factory, noise, at):
    data = bytearray(small())
    data[at : at + len(noise)] = noise
    path = write(tmp_path_factory.getbasetemp(), bytes(data))
    with contextlib.suppress(ModelFileError):
        gguf.check(path)


def test_a_newer_tensor_type_is_left_to_the_engine(tmp_path):
    assert gguf.check(write(tmp_path, small(kind=200))).tensors == 1


def test_a_directory_is_no_model(tmp_path):
    with pytest.raises(ModelFileError, match="directory"):
        gguf.check(str(tmp_path))


def test_the_digest_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    cache = str(tmp_path / "cache")
    path = write(tmp_path, small())
    old = 1_600_000_000
    hashed = []
    real = gguf.sha256_file
    monkeypatch.setattr(gguf, "sha256_file", lambda p: hashed.append(p) or real(p))
    monkeypatch.setattr(gguf, "is_racy", lambda _stamp, _now: False)
    assert gguf.verify(path, cache).sha256 == gguf.verify(path, cache).sha256 == sha256(small())
    assert len(hashed) == 1
    changed = small()[:-1] + b"x"
    (tmp_path / "m.gguf").write_bytes(changed)
    os.utime(path, (old, old))
    assert gguf.verify(path, cache).sha256 == sha256(changed)
    assert len(hashed) == 2
    (side,) = os.listdir(os.path.join(cache, "digests"))
    with open(os.path.join(cache, "digests", side), "w") as file:
        file.write("{")
    assert gguf.verify(path, cache).sha256 == sha256(changed)


def test_a_file_that_was_just_written_is_not_remembered(tmp_path):
    cache = str(tmp_path / "cache")
    path = write(tmp_path, small())
    gguf.verify(path, cache)
    assert not os.path.exists(os.path.join(cache, "digests"))
