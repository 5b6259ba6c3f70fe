"""Programs that are run: what of their output is kept, and that nothing of them is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halo.tools.base import ToolFailure
from halo.tools.sandbox import processes
from halo.tools.sandbox.direct import DirectCommands, clean
from halo.tools.sandbox.processes import run_process

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def run(script, seconds=20.0, directory="/", environment=ENVIRONMENT):
    return asyncio.run(run_process(["/bin/sh", "-c", script], environment, directory, seconds))


def alive(pid):
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, seconds=5.0):
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def read_pid(path, seconds=5.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def open_descriptors():
    return {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if fd.isdigit() and os.path.exists(f"/proc/self/fd/{fd}")
    }


def test_output_errors_and_exit_code_are_told_apart(tmp_path):
    done = run("echo out; echo err >&2; pwd; exit 3", directory=str(tmp_path))
    assert (done.code, done.output, done.errors, done.ending) == (3, f"out\n{tmp_path}\n", "err\n", "exit")


def test_a_program_that_a_signal_kills_has_that_as_its_code():
    assert run("kill -9 $$").code == -signal.SIGKILL


def test_the_environment_is_exactly_what_was_handed_over(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    names = {
        line.partition("=")[0]
        for line in run("env", environment={"PATH": "/usr/bin:/bin", "A": "1"}).output.split()
    }
    assert names <= {"PATH", "A", "PWD", "SHLVL", "_", "OLDPWD"}


def test_stdin_is_empty():
    assert run("cat; echo end").output == "end\n"


def test_no_open_file_of_halo_is_handed_down(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)  # as some library may do
        done = run("ls -l /proc/self/fd")
    assert "secret" not in done.output


def test_bytes_that_are_not_utf_8_are_replaced():
    assert run(r"printf 'a\377b'").output == "a\ufffdb"


def test_both_streams_are_read_at_once():
    """A program that fills one pipe while nobody reads it would wait for ever."""
    done = run("head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o")
    assert (len(done.errors), len(done.output), done.dropped) == (300_000, 300_000, 0)


def test_beyond_the_cap_output_is_counted():
    done = run(f"head -c {processes.KEPT + 1000} /dev/zero; echo err >&2")
    assert (len(done.output), done.dropped, done.errors, done.ending) == (
        processes.KEPT,
        1000,
        "err\n",
        "exit",
    )


def test_a_flood_is_stopped(monkeypatch):
    monkeypatch.setattr(processes, "FLOOD", 1 << 20)
    began = time.monotonic()
    done = run("yes", seconds=60)
    assert done.ending == "output"
    assert time.monotonic() - began < 20


def test_time_ends_a_program_and_what_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    done = run(f"sleep 60 & echo $! > {pid_file}; echo begun; wait", seconds=0.5)
    assert (done.ending, done.output) == ("timeout", "begun\n")
    assert gone(read_pid(pid_file))


def test_a_program_that_ignores_the_request_to_end_is_killed():
    began = time.monotonic()
    done = run("trap '' TERM; while :; do sleep 0.05; done", seconds=0.3)
    assert (done.ending, done.code) == ("timeout", -signal.SIGKILL)
    assert time.monotonic() - began < 10


def test_a_program_may_tidy_up_when_its_time_is_over(tmp_path):
    """The shell's own handler runs, and its output is still read."""
    assert (
        run("trap 'echo tidied; exit 1' TERM; while :; do sleep 0.05; done", seconds=0.3).output == "tidied\n"
    )


def test_what_runs_on_in_the_background_ends_with_the_command(tmp_path):
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    done = run(f"sleep 60 & echo $! > {pid_file}; echo done")
    assert (done.code, done.output, done.ending) == (0, "done\n", "exit")
    assert time.monotonic() - began < 10
    assert gone(read_pid(pid_file))


def test_what_left_the_group_is_not_waited_for(tmp_path):
    """Without a sandbox nobody can find it; its hold on the output must not hold the turn."""
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    done = run(f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 30' & sleep 0.3; echo done")
    try:
        assert done.output == "done\n"
        assert time.monotonic() - began < 10
    finally:
        os.kill(read_pid(pid_file), signal.SIGKILL)


def test_cancelling_kills_everything_at_once(tmp_path):
    pid_file = tmp_path / "pid"

    async def cancelled():
        script = f"sleep 60 & echo $! > {pid_file}; wait"
        task = asyncio.create_task(run_process(["/bin/sh", "-c", script], ENVIRONMENT, "/", 60))
        while not pid_file.exists():  # another process makes it
            await asyncio.sleep(0.02)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 5
    assert gone(read_pid(pid_file))


def test_cancelling_the_cancelling_leaves_nothing_either(tmp_path):
    """Ctrl-C twice, or a loop that ends: who waits for the program is cancelled in the middle of its end."""
    pid_file = tmp_path / "pid"

    async def cancelled():
        script = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
        task = asyncio.create_task(run_process(["/bin/sh", "-c", script], ENVIRONMENT, "/", 60))
        while not pid_file.exists():  # another process makes it
            await asyncio.sleep(0.02)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProcessLookupError):  # a zombie would still have its number
            os.kill(read_pid(pid_file), 0)

    asyncio.run(cancelled())


def test_the_loop_goes_on_while_a_program_runs():
    async def both():
        ticks = 0
        task = asyncio.create_task(run_process(["/bin/sh", "-c", "sleep 0.5"], ENVIRONMENT, "/", 20))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(both()) > 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_descriptor_and_no_process_is_left(monkeypatch):
    monkeypatch.setattr(processes, "FLOOD", 1 << 20)

    async def several():
        before = open_descriptors()
        for script, seconds in (("echo a", 20), ("sleep 9", 0.1), ("yes", 20), ("sleep 9 & echo b", 20)):
            await run_process(["/bin/sh", "-c", script], ENVIRONMENT, "/", seconds)
        with pytest.raises(FileNotFoundError):
            await run_process(["/no/such/program"], ENVIRONMENT, "/", 1)
        await asyncio.sleep(0.1)
        return open_descriptors() - before

    assert asyncio.run(several()) == set()
    children = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    assert "Z" not in children.stdout


# Commands without a sandbox


def test_full_access_gets_where_programs_lie_but_no_key(tmp_path, monkeypatch):
    environ = {"PATH": os.environ["PATH"], "HOME": "/h", "LANG": "C", "LC_TIME": "C", "TERM": "xterm",
               "OPENAI_API_KEY": "k", "GITHUB_TOKEN": "t", "MY_SECRET": "s", "DB_PASSWORD": "p", "ANY": "x"}  # fmt: skip
    assert set(clean(environ)) == {"PATH", "HOME", "LANG", "LC_TIME", "TERM"}
    commands = DirectCommands(str(tmp_path), environ)
    done = asyncio.run(commands.execute("pwd; env", {"EXTRA": "1"}, 20))
    assert done.output.startswith(f"{tmp_path}\n")
    assert "EXTRA=1" in done.output
    assert "KEY" not in done.output


def test_a_command_that_is_too_long_says_so(tmp_path):
    with pytest.raises(ToolFailure, match="too long"):
        asyncio.run(DirectCommands(str(tmp_path), os.environ).execute("x" * 3_000_000, {}, 20))


def test_on_windows_commands_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("halo.tools.sandbox.direct.os.name", "nt")
    with pytest.raises(ToolFailure, match="Windows"):
        asyncio.run(DirectCommands("", {}).execute("true", {}, 20))
