"""What the tests of this room share: a server that says what it is told, and turns run to their end."""

import asyncio
import json
import threading
import time
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from halo.models.adapter import Finished, Notice, Request, TextDelta, ThinkingDelta
from halo.models.prefix import Prefix
from halo.records.artifacts import Binding

MODEL = "smollm2-135m-instruct"


class Recorded(msgspec.Struct):
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class ScriptedServer:
    """Answers each POST with the next reply of its script: (status, headers, chunks of bytes).

    A chunk that is a number is a pause in seconds. What was asked is kept in `requests`.
    """

    def __init__(self):
        self.script = []
        self.requests = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {k.lower(): v for k, v in self.headers.items()}
                outer.requests.append(Recorded(self.path, headers, body))
                status, extra, chunks = outer.script.pop(0)
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                for chunk in chunks:
                    if isinstance(chunk, (int, float)):
                        time.sleep(chunk)
                        continue
                    try:
                        self.wfile.write(chunk)
                        self.wfile.flush()
                    except ConnectionError:
                        return  # the client has gone, as some tests want it to

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def says(self, *chunks, status=200, headers=None):
        """Add a reply of raw chunks."""
        self.script.append((status, headers or {"content-type": "text/event-stream"}, chunks))

    def says_chat(self, *events, done=True, cut=False):
        """Add a streamed Chat Completions reply; `cut` promises more bytes than come."""
        chunks = [b"data: " + json.dumps(e).encode() + b"\n\n" for e in events]
        if done:
            chunks.append(b"data: [DONE]\n\n")
        self._stream(chunks, cut)

    def says_messages(self, *events, cut=False):
        """Add a streamed Messages reply."""
        self._stream([f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events], cut)

    def _stream(self, chunks, cut):
        headers = {"content-type": "text/event-stream"}
        if cut:
            headers["content-length"] = str(sum(map(len, chunks)) + 1000)
        self.says(*chunks, headers=headers)

    def fails(self, status, body, **headers):
        """Add a JSON error."""
        self.says(
            json.dumps(body).encode(), status=status, headers={"content-type": "application/json", **headers}
        )


def run_turn(adapter, request, *, close=True):
    """Run one call to its end and return its events."""

    async def go():
        try:
            async with aclosing(adapter.stream(request)) as events:
                return [event async for event in events]
        finally:
            if close:
                await adapter.close()

    return asyncio.run(go())


def outcome(events):
    """Return (text deltas joined, Finished); checks that Finished is the last and the only one."""
    finished = [e for e in events if isinstance(e, Finished)]
    assert len(finished) == 1
    assert events[-1] is finished[0]
    return "".join(e.text for e in events if isinstance(e, TextDelta)), finished[0]


def thinking(events):
    return "".join(e.text for e in events if isinstance(e, ThinkingDelta))


def notices(events):
    return [e.text for e in events if isinstance(e, Notice)]


def request(*messages, system="", static="", tools=(), schema=None, **binding):
    """Make a request; `binding` fields over those of a small deterministic one."""
    fields = {"provider": "openai", "model": "m", "max_tokens": 24, "temperature": 0.0, "seed": 1, **binding}
    return Request(Prefix(system, static, tuple(tools)), tuple(messages), Binding(**fields), schema)
