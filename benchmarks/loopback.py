"""A server on loopback that answers model calls of every protocol with the same few words, after a latency.

It runs in a thread of its own event loop and costs as little as it can, because it shares the machine.
"""

import asyncio
import json
import threading
import time

TEXT = "All is well."


def _sse(*events, named=False):
    lines = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def _response(status, **more):
    return {
        "id": "resp_1", "object": "response", "created_at": 0, "model": "m", "status": status, "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **more,
    }  # fmt: skip


_ITEM = {
    "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}  # fmt: skip
_RESPONSES_USAGE = {
    "input_tokens": 9, "output_tokens": 4, "total_tokens": 13,
    "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip

CHAT = _sse(
    {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m",
     "choices": [{"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}]},
    {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m",
     "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [],
     "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}},
) + b"data: [DONE]\n\n"  # fmt: skip

MESSAGES = _sse(
    {"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m",
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
     "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
    named=True,
)  # fmt: skip

RESPONSES = _sse(
    {"type": "response.created", "sequence_number": 0, "response": _response("in_progress")},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
     "item": {**_ITEM, "status": "in_progress", "content": []}},
    {"type": "response.content_part.added", "sequence_number": 2, "item_id": "msg_1", "output_index": 0,
     "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}},
    {"type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1", "output_index": 0,
     "content_index": 0, "delta": TEXT, "logprobs": []},
    {"type": "response.output_text.done", "sequence_number": 4, "item_id": "msg_1", "output_index": 0,
     "content_index": 0, "text": TEXT, "logprobs": []},
    {"type": "response.output_item.done", "sequence_number": 5, "output_index": 0, "item": _ITEM},
    {"type": "response.completed", "sequence_number": 6,
     "response": _response("completed", output=[_ITEM], usage=_RESPONSES_USAGE)},
    named=True,
)  # fmt: skip

GEMINI = _sse(
    {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13},
        "modelVersion": "m",
    }
)


class Loopback:
    """Serves until it is closed. `arrived` holds the `time.perf_counter()` of every request."""

    def __init__(self, latency=0.0):
        self.latency = latency
        self.arrived = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.arrived.append(time.perf_counter())
                first, _, rest = head.partition(b"\r\n")
                length = next(
                    (int(line.split(b":")[1]) for line in rest.lower().split(b"\r\n")
                     if line.startswith(b"content-length:")), 0,
                )  # fmt: skip
                await reader.readexactly(length)
                if self.latency:
                    await asyncio.sleep(self.latency)
                body = _answer(first)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"content-length: %d\r\n\r\n%b" % (len(body), body)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # by `close`; Python 3.11 would print it as a fault of the server
        finally:
            writer.close()

    def close(self):
        """Stop serving, and end what still waits for a request."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self):
        self._server.close()
        waiting = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _answer(request_line):
    path = request_line.split()[1]
    if b"/messages" in path:
        return MESSAGES
    if b"/responses" in path:
        return RESPONSES
    if b"GenerateContent" in path or b"generateContent" in path:
        return GEMINI
    return CHAT
