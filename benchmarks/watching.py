"""From a save to the artifact on disk, while `halo watch` runs in a process of its own.

Prints a table for 100 and 1,000 agents (or for the numbers given). Aims: at most 60 ms at 100 agents,
150 ms at 1,000. The floor is watchfiles itself: a write to its event. A missed aim is marked, for a loaded
machine is noisy.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

EDITS = 15
AIMS = {100: 60, 1000: 150}


def make_agents(workspace, number):
    """Make a workspace of so many small agents that share USER.md and INSTRUCTIONS.md."""
    halo = Path(workspace) / ".halo"
    for i in range(number):
        folder = halo / "agents" / f"agent{i:04}"
        folder.mkdir(parents=True)
        (folder / "agent.yaml").write_text(
            f"name: Agent {i}\ndescription: does {i}\n"
            "model: {provider: openai, id: m}\ntools: [file_read]\n"
        )
        (folder / "AGENT.md").write_text(f"You are agent {i}.\n\n" + "Do one thing well.\n" * 20)
    (halo / "USER.md").write_text("Mira.\n")
    (halo / "INSTRUCTIONS.md").write_text("Never force-push.\n" * 20)


@contextlib.contextmanager
def running_watcher(workspace, environ):
    """Start `halo watch` and wait until it says that it waits for changes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "halo", "watch"], cwd=workspace, env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            if line.startswith("watching "):
                break
        else:
            raise RuntimeError("the watcher ended")
        # Its lines are read to the end, so that it never waits for us.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield process
    finally:
        process.terminate()
        process.wait(30)


def time_edit(source, pointer, patience=30.0):
    """Append a line to `source`; return the milliseconds until the file `pointer` was replaced.

    A pointer is written after its artifact.
    """
    before = os.stat(pointer).st_ino
    with open(source, "a", encoding="utf-8") as file:
        file.write(f"Edited at {time.time_ns()}.\n")
    began = time.perf_counter()
    while os.stat(pointer).st_ino == before:
        if time.perf_counter() - began > patience:
            raise TimeoutError(pointer)
        time.sleep(0.0005)
    return (time.perf_counter() - began) * 1000


def time_edits(number, edits=EDITS):
    """Return the milliseconds of each of some edits among `number` agents, and the watcher's memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = os.path.join(folder, "ws")
        make_agents(workspace, number)
        environ = {**os.environ, "HALO_HOME": os.path.join(folder, "home")}
        subprocess.run(
            [sys.executable, "-m", "halo", "build"],
            cwd=workspace,
            env=environ,
            check=True,
            capture_output=True,
        )
        found = []
        with running_watcher(workspace, environ) as process:
            for i in range(edits):
                time.sleep(0.3)
                agent = f"agent{i % number:04}"
                found.append(
                    time_edit(
                        f"{workspace}/.halo/agents/{agent}/AGENT.md",
                        f"{workspace}/.halo/build/{agent}/root.json",
                    )
                )
            memory = _memory_mb(process.pid)
    return found, memory


def _memory_mb(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            kilobytes = next(line.split()[1] for line in file if line.startswith("VmRSS"))
    except OSError:
        return 0.0
    return int(kilobytes) / 1024


def floor_ms(edits=EDITS):
    """Return the milliseconds from a write to watchfiles' own event, with the watcher's settings."""
    from watchfiles._rust_notify import RustNotify

    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with RustNotify([folder], False, False, 300, False, False) as source:
            for i in range(edits):
                timer = threading.Timer(0.1, lambda i=i: Path(path).write_text(str(i)))
                timer.start()
                source.watch(50, 10, 5000, None)
                found.append((time.time_ns() - os.stat(path).st_mtime_ns) / 1e6)
    return found


def main(numbers):
    print(f"{'save to artifact':28}{'min ms':>9}{'median ms':>11}{'max ms':>9}{'x floor':>9}{'MB':>7}  aim")
    base = floor_ms()
    floor = statistics.median(base)
    print(f"{'watchfiles: write to event':28}{min(base):9.1f}{floor:11.1f}{max(base):9.1f}{1:9.1f}")
    for number in numbers:
        found, memory = time_edits(number)
        median = statistics.median(found)
        aim = AIMS.get(number)
        said = "" if aim is None else f"at most {aim}" + (" MISSED" if median > aim else "")
        print(
            f"{f'one of {number} agents':28}{min(found):9.1f}{median:11.1f}{max(found):9.1f}"
            f"{median / floor:9.1f}{memory:7.0f}  {said}".rstrip()
        )
    return 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or list(AIMS)))
