"""Locks that the kernel keeps: one holder, and death lets go."""

import os
import signal
import subprocess
import sys

import pytest

from halo.errors import BusyError
from halo.files.locks import FileLock, hold

HOLDER = (
    "import sys; from halo.files.locks import hold\n"
    "with hold(sys.argv[1], what='it'):\n"
    "    print('held', flush=True); sys.stdin.readline()"
)
COUNTER = (
    "import sys; from halo.files.locks import hold\n"
    "for _ in range(10):\n"
    "    with hold(sys.argv[1], what='the counter', timeout=120):\n"
    "        with open(sys.argv[2]) as f: n = int(f.read())\n"
    "        with open(sys.argv[2], 'w') as f: f.write(str(n + 1))"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock `l`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "l")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_what_another_process_holds_is_busy_and_the_error_says_whose_it_is(tmp_path, holder):
    with pytest.raises(BusyError) as caught, hold(str(tmp_path / "l"), what="session 7k3f9q"):
        pass
    assert f"session 7k3f9q is in use by process {holder.pid}" in str(caught.value)
    assert caught.value.hint
    with pytest.raises(BusyError, match=r"after 0\.1 s"):
        FileLock(str(tmp_path / "l"), what="it", timeout=0.1).acquire()


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_death_releases_and_the_file_stays(tmp_path, holder):
    inode = os.stat(tmp_path / "l").st_ino
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with hold(str(tmp_path / "l"), what="it"):
        pass
    assert os.stat(tmp_path / "l").st_ino == inode


def test_a_lock_is_exclusive_within_a_process_too(tmp_path):
    path = str(tmp_path / "made" / "on" / "demand")
    with hold(path, what="it") as lock:
        with pytest.raises(BusyError), hold(path, what="it"):
            pass
        with pytest.raises(RuntimeError, match="already holds"):
            lock.acquire()
    with hold(path, what="it"):
        pass
    lock.release()  # a second time does nothing
    with lock:
        pass
    assert os.path.exists(path)


def test_an_error_inside_releases(tmp_path):
    with pytest.raises(ZeroDivisionError), hold(str(tmp_path / "l"), what="it"):
        raise ZeroDivisionError
    with hold(str(tmp_path / "l"), what="it"):
        pass


def test_eight_processes_take_turns(tmp_path):
    (tmp_path / "n").write_text("0")
    workers = [
        subprocess.Popen([sys.executable, "-c", COUNTER, str(tmp_path / "l"), str(tmp_path / "n")])
        for _ in range(8)
    ]
    assert [worker.wait() for worker in workers] == [0] * 8
    assert (tmp_path / "n").read_text() == "80"
