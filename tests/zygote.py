"""Starts `halo` as a process of its own without importing everything anew: a process that has done so forks it.

Some hundred tests start Halo; with a provider's client each start takes a second, most of it imports. A
`Started` has its own id, takes signals and can be killed like any other process. The tests of documentation,
of terminals and of MCP clients start `python -m halo` itself.
"""

import atexit
import contextlib
import functools
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
_PLAIN = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}  # of `DiskWorkspace.environ`
_READ_AT_START = ("PYTHON", "LC_", "LANG", "MALLOC")
_MOST = 1 << 20  # bytes of a request


def can_fork(environ, **options):
    """Tell whether nothing is asked for that the interpreter reads when it starts."""
    special = {k: v for k, v in environ.items() if k.startswith(_READ_AT_START)}
    return (
        hasattr(os, "fork")
        and special == _PLAIN
        and not options.keys() - {"cwd", "stdin", "stdout", "stderr", "text", "start_new_session"}
    )


class Started(subprocess.Popen):
    """`halo` with arguments, forked. The options are those of `Popen` that `can_fork` knows."""

    def __init__(self, arguments, environ, **options):
        super().__init__(["halo", *arguments], env=environ, **options)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[3:9]
        new_session = rest[14]
        fds = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        request = {
            "arguments": [os.fsdecode(each) for each in args[1:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "environ": {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()},
            "session": new_session,
        }
        data = json.dumps(request).encode() + b"\n"
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_zygote())
        sent = socket.send_fds(self._connection, [data], fds)
        self._connection.sendall(data[sent:])
        self.pid = int(self._line())
        self._child_created = True
        for theirs, ours in ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread)):
            if theirs != -1 and ours != -1:
                os.close(theirs)

    def _line(self):
        data = b""
        while not data.endswith(b"\n"):
            more = self._connection.recv(64)
            assert more, "the process that forks is gone"
            data += more
        return data

    def _try_wait(self, flags):
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            if not selector.select(0 if flags & os.WNOHANG else None):
                return 0, 0
        status = int(self._line())
        self._connection.close()
        return self.pid, status

    def _internal_poll(self, *_, **__):
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


@functools.cache
def _zygote():
    """Return the address of the process that forks, which is started when it is needed first."""
    folder = tempfile.mkdtemp(prefix="zygote-")
    path, said = os.path.join(folder, "socket"), os.path.join(folder, "said")
    with open(said, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, __file__, path, str(os.getpid())],
            env={"PATH": os.environ["PATH"], **_PLAIN},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    atexit.register(_end, process, folder)
    until = time.monotonic() + 60
    while not os.path.exists(f"{path}.ready"):
        assert process.poll() is None, Path(said).read_text()
        assert time.monotonic() < until, "the process that forks does not start"
        time.sleep(0.01)
    return path


def _end(process, folder):
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


# What follows runs in the process that forks.


def main():
    import importlib
    import pkgutil

    import halo

    for module in pkgutil.walk_packages(halo.__path__, "halo."):
        if not module.name.startswith(("halo.testing", "halo.dodo", "halo.__main__", "halo.cli.mcp_")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    import openai.resources.chat
    import openai.types.chat  # noqa: F401

    path, parent = sys.argv[1], int(sys.argv[2])
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(16)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    Path(f"{path}.ready").touch()
    waiting = {}  # connections of those that run, by id
    while os.getppid() == parent:
        with selectors.DefaultSelector() as selector:
            selector.register(listening, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(1.0)]
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        for pid in [*waiting]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                with contextlib.suppress(OSError), waiting.pop(pid) as connection:
                    connection.sendall(b"%d\n" % status)
        if listening in ready:
            connection, _ = listening.accept()
            request, fds = _received(connection)
            pid = os.fork()
            if pid == 0:
                for other in (listening, connection, *waiting.values()):
                    other.close()
                os.close(woken)
                signal.set_wakeup_fd(-1)
                os.close(waking)
                _become(request, fds)
            for fd in fds:
                os.close(fd)
            waiting[pid] = connection
            connection.sendall(b"%d\n" % pid)


def _received(connection):
    data, fds = b"", []
    while not data.endswith(b"\n"):
        more, new, _, _ = socket.recv_fds(connection, _MOST, 3)
        data, fds = data + more, fds + new
    return json.loads(data), fds


def _become(request, fds):
    """Be `python -m halo` with these arguments, and end."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        for fd in fds:
            if fd > 2:
                os.close(fd)
        if request["session"]:
            os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        time.tzset()
        sys.argv[:] = [str(REPOSITORY / "halo" / "__main__.py"), *request["arguments"]]
        sys.orig_argv[:] = [sys.executable, "-m", "halo", *request["arguments"]]
        sys.path[0] = request["cwd"]
        sys.stdin, sys.stdout, sys.stderr = (
            open(0, encoding="utf-8", closefd=False),  # noqa: SIM115  # as long as the process lives
            open(1, "w", encoding="utf-8", closefd=False),  # noqa: SIM115
            open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False),  # noqa: SIM115
        )
        from halo.__main__ import main as start

        try:
            start()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        _end_threads()
    except BaseException:  # noqa: BLE001  # as the interpreter does at its end
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _end_threads():
    """What the interpreter does before it ends: wait for threads, and run what was registered."""
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()


if __name__ == "__main__":
    sys.path[0] = str(REPOSITORY)
    main()
