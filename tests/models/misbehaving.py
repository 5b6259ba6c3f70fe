"""A server on loopback that does what servers should not, byte by byte, in the test's own event loop.

    async with Misbehaving(answer(200, b"data: …"), RESET) as server:
        ... server.url, server.requests, server.open

Each connection gets the next answer of the script; the last one is given again and again.
"""

import asyncio
import json
from contextlib import suppress

# Steps of an answer beside bytes (sent at once) and numbers (a pause in seconds).
RESET = object()  # the connection breaks as if the cable were cut
SILENCE = object()  # nothing more, and the connection stays


class Answer:
    """What goes over the wire: steps, the head being one of them."""

    def __init__(self, *steps):
        self.steps = steps


def answer(status, body=b"", *, kind="text/event-stream", framing="close", cut=None, **headers):
    """Make an answer: `body` is bytes, or a list of steps.

    `framing`: `close` (it ends when the connection does), `length`, `chunked`. `cut`: only so many bytes of
    the body come, whatever was promised.
    """
    steps = [body] if isinstance(body, bytes) else list(body)
    size = sum(len(s) for s in steps if isinstance(s, bytes))
    if cut is not None:
        steps = [b"".join(steps)[:cut]]
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "connection: close"]
    if framing == "length":
        lines.append(f"content-length: {size}")
    if framing == "chunked":
        lines.append("transfer-encoding: chunked")
        steps = [b"%x\r\n%s\r\n" % (len(s), s) if isinstance(s, bytes) and s else s for s in steps]
        if cut is None:
            steps.append(b"0\r\n\r\n")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Answer("\r\n".join([*lines, "", ""]).encode(), *steps)


def fault(status, body, **headers):
    """Make an error in JSON."""
    return answer(status, json.dumps(body).encode(), kind="application/json", framing="length", **headers)


class Misbehaving:
    """See the module. `requests` are the bodies that came, decoded; `open` counts connections."""

    def __init__(self, *script, port=0):
        self.script = list(script)
        self.requests = []
        self.open = 0
        self._port = port
        self._working = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc):
        self._server.close()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    async def quiet(self, seconds=2.0):
        """Wait until no connection is open."""
        async with asyncio.timeout(seconds):
            while self.open:  # a count, which several connections change
                await asyncio.sleep(0.005)

    async def _serve(self, reader, writer):
        self._working.add(asyncio.current_task())
        self.open += 1
        gone = asyncio.ensure_future(self._answer(reader, writer))
        try:
            await gone
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, as some tests want it to
        finally:
            gone.cancel()
            self.open -= 1
            self._working.discard(asyncio.current_task())
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        self.requests.append(json.loads(await reader.readexactly(length)))
        given = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        for step in given.steps if isinstance(given, Answer) else (given,):
            if step is RESET:
                writer.transport.abort()
                return
            if step is SILENCE:
                await reader.read()  # until the client closes
                return
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
                continue
            # A pause ends when the client goes.
            with suppress(TimeoutError):
                async with asyncio.timeout(step):
                    await reader.read()
                    return
