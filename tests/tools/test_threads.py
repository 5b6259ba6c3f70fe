"""A tool that hangs holds neither the loop nor the process; other work is waited for."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from halo.tools.threads import ToolThreads, tool_work


def run(coroutine):
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ToolThreads())
        return runner.run(coroutine)


def test_results_and_errors_come_back():
    async def go():
        with tool_work():
            assert await asyncio.to_thread(lambda: 7) == 7
            assert (await asyncio.to_thread(threading.current_thread)).daemon
            with pytest.raises(ZeroDivisionError):
                await asyncio.to_thread(lambda: 1 // 0)
        assert not (await asyncio.to_thread(threading.current_thread)).daemon

    run(go())


def test_a_tool_that_was_cancelled_is_left_behind():
    """The loop closes at once; the thread ends later, and its result goes nowhere without complaint."""
    release, ended = threading.Event(), threading.Event()

    def work():
        release.wait(30)
        ended.set()

    async def go():
        with tool_work():
            await asyncio.wait_for(asyncio.to_thread(work), 0.01)

    with pytest.raises(TimeoutError):
        run(go())
    assert not ended.is_set()
    release.set()
    assert ended.wait(30)


def test_other_work_is_waited_for():
    done = []

    def work():
        time.sleep(0.05)
        done.append(True)

    async def go():
        await asyncio.wait_for(asyncio.to_thread(work), 0.01)

    with pytest.raises(TimeoutError):
        run(go())
    assert done == [True]


PROGRAM = """
import asyncio, time
from halo.tools.threads import ToolThreads, tool_work

async def go():
    with tool_work():
        await asyncio.wait_for(asyncio.to_thread(time.sleep, 3600), 0.01)

with asyncio.Runner() as runner:
    runner.get_loop().set_default_executor(ToolThreads())
    try:
        runner.run(go())
    except TimeoutError:
        print("left")
"""


def test_the_process_ends_without_the_thread():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("left\n", "")
