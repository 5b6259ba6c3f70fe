"""The checked log: what was acknowledged is there, and damage costs what it touches."""

import errno
import json
import os
from zlib import crc32

import pytest
from crash import every_crash, recording, replay
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import LogError
from halo.files import ops
from halo.files.log import DAMAGED, TORN_TAIL, CheckedLog, LogLine, encode_line, read_log

VALUES = st.recursive(
    st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "crc"]), inner, max_size=2)
    ),
    max_leaves=4,
)
RECORD = st.fixed_dictionaries({"seq": VALUES}, optional={"crc": st.sampled_from(["00000000", "x"])}).map(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
)
RECORDS = st.lists(RECORD, min_size=1, max_size=4)


def good(path):
    return [line.record for line in read_log(str(path)) if line.record is not None]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One file for all examples of a property."""
    return tmp_path_factory.mktemp("log") / "events.jsonl"


def test_a_line_is_json_with_a_checksum_of_the_rest():
    record = b'{"seq":1}'
    assert encode_line(record) == b'{"seq":1,"crc":"%08x"}\n' % crc32(record)
    assert json.loads(encode_line(record)) == {"seq": 1, "crc": f"{crc32(record):08x}"}


@pytest.mark.parametrize("record", [b"", b"{}", b"[1]", b'{"a":1}\n', b'{"a":\n1}', b'"a"', b' {"a":1}'])
def test_what_is_no_record_is_refused_before_anything_is_written(tmp_path, record):
    with (
        CheckedLog.open(str(tmp_path / "l"), create=True) as log,
        pytest.raises(ValueError, match="a record is"),
    ):
        log.append(record)
    assert (tmp_path / "l").read_bytes() == b""


@given(RECORDS)
def test_what_is_appended_is_read_in_order(path, records):
    path.unlink(missing_ok=True)
    for record in records:
        with CheckedLog.open(str(path), create=True) as log:
            log.append(record, sync=False)
    assert list(read_log(str(path))) == [LogLine(n, record, None) for n, record in enumerate(records, 1)]


@given(RECORDS, RECORD)
def test_a_log_cut_at_any_byte_keeps_all_whole_records_and_goes_on(path, records, new):
    lines = [encode_line(record) for record in records]
    data = b"".join(lines)
    ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        # A line is whole without its newline: its checksum says so.
        whole = [record for record, end in zip(records, ends, strict=True) if end - 1 <= cut]
        assert good(path) == whole
        torn = [line for line in read_log(str(path)) if line.problem]
        assert torn == (
            [] if cut == 0 or cut in ends or cut + 1 in ends else [LogLine(len(whole) + 1, None, TORN_TAIL)]
        )
        with CheckedLog.open(str(path)):
            pass  # closes the tail; a log may be opened any number of times before it goes on
        with CheckedLog.open(str(path)) as log:
            log.append(new, sync=False)
        assert good(path) == [*whole, new]
        assert path.read_bytes().startswith(data[:cut])
        problems = [line.problem for line in read_log(str(path)) if line.problem]
        assert problems == [DAMAGED] * len(torn)


@given(RECORDS, st.data())
def test_a_damaged_byte_costs_at_most_its_line(path, records, data):
    lines = [encode_line(record) for record in records]
    whole = bytearray(b"".join(lines))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    hit = next(n for n in range(len(lines)) if at < sum(map(len, lines[: n + 1])))
    found = good(path)
    survivors = [record for n, record in enumerate(records) if n != hit]
    assert found in (survivors, records)
    newline_hit = at == sum(map(len, lines[: hit + 1])) - 1
    assert found == records if newline_hit else found == survivors
    assert any(line.problem for line in read_log(str(path)))


@given(st.lists(st.binary(max_size=30) | RECORD.map(encode_line), max_size=4))
def test_any_bytes_can_be_read_and_are_never_rewritten(path, pieces):
    data = b"".join(pieces)
    path.write_bytes(data)
    records = good(path)
    try:
        log = CheckedLog.open(str(path))
    except LogError:
        assert records == []
        assert path.read_bytes() == data
        return
    with log:
        log.append(b'{"new":1}', sync=False)
    assert good(path) == [*records, b'{"new":1}']
    assert path.read_bytes().startswith(data)


@pytest.mark.parametrize(
    "data",
    [b"# notes\n", b'{"role":"user"}\n', b'{"a":1,"crc":"00000000"}\n', b"\n", b"\x7fELF\n\n", b"no newline"],
)
def test_what_is_evidently_not_a_log_is_refused_and_left_alone(tmp_path, data):
    path = tmp_path / "l"
    path.write_bytes(data)
    with pytest.raises(LogError) as caught:
        CheckedLog.open(str(path), create=True)
    assert caught.value.file == str(path)
    assert caught.value.hint
    assert path.read_bytes() == data


def test_a_log_whose_first_appends_were_all_torn_stays_usable(tmp_path):
    path = tmp_path / "l"
    path.write_bytes(b'{"se\n{"seq":1,"c\n\0\0\0')
    with CheckedLog.open(str(path)) as log:
        log.append(b'{"seq":1}')
    assert good(path) == [b'{"seq":1}']


@pytest.mark.skipif(os.name == "nt", reason="no FIFOs on Windows")
def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    os.mkdir(tmp_path / "dir")
    (tmp_path / "target").write_bytes(b"")
    os.symlink("target", tmp_path / "link")
    for name in ("fifo", "dir", "link"):
        with pytest.raises(LogError, match="not a regular file"):
            CheckedLog.open(str(tmp_path / name), create=True)
        with pytest.raises(LogError, match="not a regular file"):
            list(read_log(str(tmp_path / name)))


def test_an_absent_log_is_an_error_unless_it_is_to_be_made(tmp_path):
    path = str(tmp_path / "2026-10" / "id" / "events.jsonl")
    with pytest.raises(LogError, match="there is no log here"):
        CheckedLog.open(path)
    with pytest.raises(LogError, match="there is no log here"):
        list(read_log(path))
    with CheckedLog.open(path, create=True) as log:
        log.append(b'{"seq":1}')
    assert good(path) == [b'{"seq":1}']


def test_a_full_disk_tears_a_line_that_the_next_append_closes(tmp_path, monkeypatch):
    path = tmp_path / "l"
    real = os.write
    room = [10]

    def limited(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, bytes(data)[: room[0]])
        room[0] -= written
        return written

    with CheckedLog.open(str(path), create=True) as log:
        log.append(b'{"seq":1}')
        with monkeypatch.context() as patch:
            patch.setattr(ops.os, "write", limited)
            with pytest.raises(LogError, match="No space left") as caught:
                log.append(b'{"seq":2}')
            assert "make room" in caught.value.hint
            with pytest.raises(LogError):
                log.append(b'{"seq":2}')
        log.append(b'{"seq":2}')
        log.append(b'{"seq":3}')
    assert good(path) == [b'{"seq":1}', b'{"seq":2}', b'{"seq":3}']
    assert [line.number for line in read_log(str(path)) if line.problem] == [2]


def test_a_disk_that_is_full_before_the_first_byte_leaves_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "l"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with CheckedLog.open(str(path), create=True) as log:
        with monkeypatch.context() as patch:
            patch.setattr(ops, "write", full)
            with pytest.raises(LogError):
                log.append(b'{"seq":1}')
        log.append(b'{"seq":1}')
    assert path.read_bytes() == encode_line(b'{"seq":1}')


def test_a_write_taken_in_parts_is_one_line(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(ops.os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    with CheckedLog.open(str(tmp_path / "l"), create=True) as log:
        log.append(b'{"seq":1}')
    assert good(tmp_path / "l") == [b'{"seq":1}']


def test_a_failed_sync_is_not_an_acknowledgement(tmp_path, monkeypatch):
    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    with CheckedLog.open(str(tmp_path / "l"), create=True) as log:
        monkeypatch.setattr(ops, "fsync", failing)
        with pytest.raises(LogError, match="Input/output error"):
            log.append(b'{"seq":1}')


def test_closing_twice_does_nothing(tmp_path):
    log = CheckedLog.open(str(tmp_path / "l"), create=True)
    log.close()
    log.close()


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=3))
def test_after_a_crash_every_acknowledged_record_is_there(tmp_path_factory, openings):
    """Whatever is lost of what was not synced, and whether or not the process died between openings."""
    place = tmp_path_factory.mktemp("crash")
    base = place / "base"
    base.mkdir()
    appended, acknowledged, number = [], [], 0
    with recording() as recorded:
        for count, sync in openings:
            with CheckedLog.open(str(base / "s" / "l"), create=True) as log:
                for _ in range(count):
                    number += 1
                    appended.append(b'{"seq":%d}' % number)
                    log.append(appended[-1], sync=sync)
                    if sync:
                        acknowledged.append((len(recorded), number))
    for nth, (upto, lost) in enumerate(every_crash(recorded)):
        into = place / str(nth)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), **lost)
        path = into / "s" / "l"
        safe = max((count for done, count in acknowledged if done <= upto), default=0)
        found = good(path) if path.exists() else []
        assert found == appended[: len(found)]
        assert len(found) >= safe
        with CheckedLog.open(str(path), create=True) as log:
            log.append(b'{"after":1}', sync=False)
        assert good(path) == [*found, b'{"after":1}']
