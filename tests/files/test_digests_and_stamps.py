"""Digests, and the stat data that stand for them."""

import hashlib
import os
import random
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.files.digests import listing_digest, sha256, sha256_file
from halo.files.stamps import RACY_NS, Stamp, is_racy, stamp

LISTING = st.lists(
    st.tuples(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3),
        st.sampled_from(["file", "dir"]),
    ),
    max_size=5,
)


def test_a_file_larger_than_a_block_has_the_digest_of_its_bytes(tmp_path):
    data = random.Random(1).randbytes((1 << 20) + 17)
    (tmp_path / "f").write_bytes(data)
    assert sha256_file(str(tmp_path / "f")) == sha256(data) == hashlib.sha256(data).hexdigest()


@given(LISTING, LISTING)
def test_listings_have_the_same_digest_exactly_when_they_are_the_same(one, other):
    assert (listing_digest(one) == listing_digest(other)) == (sorted(one) == sorted(other))


def test_a_stamp_notices_every_way_to_change_a_file(tmp_path):
    path = str(tmp_path / "f")
    assert stamp(path) is None
    assert stamp(path + "/below") is None
    (tmp_path / "f").write_bytes(b"old")
    os.utime(path, ns=(0, 10**18))
    before = stamp(path)
    assert before == Stamp.of(os.stat(path))

    (tmp_path / "g").write_bytes(b"new")
    os.utime(tmp_path / "g", ns=(0, 10**18))  # `cp -p` keeps the time and the size
    os.replace(tmp_path / "g", path)
    after = stamp(path)
    assert (after.mtime_ns, after.size) == (before.mtime_ns, before.size)
    assert after != before
    assert stamp(path + "/below") is None


def test_a_stamp_survives_json():
    value = Stamp(1, 2, 3, 4)
    assert msgspec.json.encode(value) == b"[1,2,3,4]"
    assert msgspec.json.decode(msgspec.json.encode(value), type=Stamp) == value


@pytest.mark.parametrize(
    ("mtime", "ctime", "racy"),
    [
        (0, 0, False),
        (10**18 - RACY_NS, 0, False),
        (10**18 - RACY_NS + 1, 0, True),
        (0, 10**18 - 1, True),
        (10**18 + 10**15, 0, True),  # the clock was set back
    ],
)
def test_what_changed_shortly_before_it_was_recorded_is_not_trusted(mtime, ctime, racy):
    assert is_racy(Stamp(mtime, ctime, 0, 0), 10**18) is racy


def test_the_freshness_path_imports_nothing_heavy():
    """A no-op build imports these; each module below costs it milliseconds."""
    heavy = {"pathlib", "tempfile", "logging", "filelock", "subprocess", "dataclasses", "asyncio", "shutil"}
    script = "import sys; import msgspec; before = set(sys.modules); import halo.files.{}; print(*(set(sys.modules) - before))"
    for module in ("stamps", "canonical"):
        run = subprocess.run(
            [sys.executable, "-c", script.format(module)], capture_output=True, text=True, check=True
        )
        loaded = set(run.stdout.split())
        assert not loaded & heavy
        assert {name for name in loaded if name.startswith("halo")} <= {
            "halo",
            "halo.errors",
            "halo.files",
            f"halo.files.{module}",
        }
