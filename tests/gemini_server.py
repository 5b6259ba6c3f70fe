"""A server on loopback that speaks the Gemini API as it is published, and refuses what that refuses.

It keeps cached contents, with a clock of its own. What a model says is scripted; without a script it says
`Hello.` Counts of tokens are a quarter of the characters.
"""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

REQUEST = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "cachedContent"}
CONFIG = {
    "maxOutputTokens", "temperature", "topP", "topK", "seed", "responseMimeType", "responseJsonSchema",
    "thinkingConfig",
}  # fmt: skip
RESOURCE = {"model", "displayName", "ttl", "systemInstruction", "tools", "contents"}
FORBIDDEN_BESIDE_A_NAME = {"systemInstruction", "tools", "toolConfig"}


class Refused(Exception):  # noqa: N818  # it is an answer
    """An error of the API."""

    def __init__(self, status, word, message, details=()):
        self.status = status
        self.body = {"error": {"code": status, "message": message, "status": word, "details": list(details)}}
        if not details:
            del self.body["error"]["details"]


def invalid(message):
    return Refused(400, "INVALID_ARGUMENT", message)


def text(words, **fields):
    return {"text": words, **fields}


def call(name, args, **fields):
    return {"functionCall": {"name": name, "args": args}, **fields}


def chunk(*parts, stop=None, usage=None, **fields):
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    found = {"candidates": [candidate], "modelVersion": "gemini-3.8-flash-001", "responseId": "r", **fields}
    return {**found, "usageMetadata": usage} if usage else found


def size(value):
    return len(json.dumps(value)) // 4


class Asked(msgspec.Struct):
    method: str
    path: str
    key: str
    body: dict
    headers: dict = {}


class GeminiServer:
    """See the module. `asked` is what came; `now` is its time; `minimum` the least size of a resource."""

    def __init__(self, minimum=100):
        self.asked = []
        self.resources = {}
        self.script = []
        self.now = 1_000_000.0
        self.minimum = minimum
        self.keeping = []  # what becomes of the next attempts to make a resource: Refused, or seconds to wait
        self.extending = []  # what the next attempts to extend one are refused by
        self.owners = {}
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                length = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(length) or b"{}")
                key = self.headers.get("x-goog-api-key", "")
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, key, body, headers)
                with outer._lock:
                    outer.asked.append(asked)
                try:
                    answer = outer.answer(asked)
                except Refused as refused:
                    self.send(refused.status, json.dumps([refused.body]).encode())
                    return
                except Exception as error:  # noqa: BLE001  # a test must see it
                    self.send(500, repr(error).encode())
                    return
                if isinstance(answer, dict):
                    self.send(200, json.dumps(answer).encode())
                else:
                    self.stream(answer)

            do_POST = do_PATCH = handle_one  # noqa: N815

            def send(self, status, data):
                self.send_response(status)
                self.send_header("content-type", "application/json; charset=UTF-8")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, chunks):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in chunks:
                    data = b"data: " + json.dumps(piece).encode() + b"\r\n\r\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def says(self, *chunks):
        """Add a reply."""
        self.script.append(chunks)

    def generated(self):
        """Return the bodies of the calls that generate."""
        return [a.body for a in self.asked if "streamGenerateContent" in a.path]

    def kept(self):
        """Return the bodies of the resources that were asked for."""
        return [a.body for a in self.asked if a.method == "POST" and a.path.endswith("/cachedContents")]

    def answer(self, asked):
        if asked.method == "PATCH":
            return self._extended(asked)
        if asked.path == "/v1beta/cachedContents":
            return self._made(asked)
        found = re.fullmatch(r"/v1beta/models/([\w.-]+):(\w+)(\?alt=sse)?", asked.path)
        assert found, asked.path
        if found[2] == "countTokens":
            return self._counted(found[1], asked.body)
        assert (found[2], found[3]) == ("streamGenerateContent", "?alt=sse")
        return self._generated(found[1], asked)

    def _made(self, asked):
        if self.keeping:
            step = self.keeping.pop(0)
            if isinstance(step, Refused):
                raise step
            time.sleep(step)
        body = asked.body
        if unknown := set(body) - RESOURCE:
            raise invalid(f'Invalid JSON payload received. Unknown name "{min(unknown)}"')
        tokens = size({k: v for k, v in body.items() if k in ("systemInstruction", "tools", "contents")})
        if tokens < self.minimum:
            raise invalid(
                f"Cached content is too small. total_token_count={tokens}, min_total_token_count={self.minimum}"
            )
        name = f"cachedContents/made-{len(self.resources) + 1}"
        self.resources[name] = (body, self.now + float(body["ttl"].removesuffix("s")), tokens)
        self.owners[name] = asked.key
        return {
            "name": name, "model": body["model"], "createTime": "2026-12-01T00:00:00Z",
            "updateTime": "2026-12-01T00:00:00Z", "expireTime": "2026-12-01T00:05:00Z",
            "displayName": body["displayName"], "usageMetadata": {"totalTokenCount": tokens},
        }  # fmt: skip

    def _live(self, name, asked):
        body, until, tokens = self.resources.get(name, ({}, 0.0, 0))
        if until <= self.now or self.owners[name] != asked.key:
            raise Refused(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")
        return body, tokens

    def _extended(self, asked):
        name = asked.path.partition("?")[0].removeprefix("/v1beta/")
        self._live(name, asked)
        if self.extending:
            raise self.extending.pop(0)
        body, _, tokens = self.resources[name]
        self.resources[name] = (body, self.now + float(asked.body["ttl"].removesuffix("s")), tokens)
        return {"name": name}

    def _counted(self, model, body):
        if unknown := set(body) - {"contents", "generateContentRequest"}:
            raise invalid(f'Unknown name "{min(unknown)}"')
        inner = body["generateContentRequest"]
        if body.get("contents"):
            raise invalid("contents and generateContentRequest are mutually exclusive")
        assert inner.pop("model") == f"models/{model}"
        check(inner, model)
        return {"totalTokens": size(inner)}

    def _generated(self, model, asked):
        body = asked.body
        check(body, model)
        cached = 0
        if name := body.get("cachedContent"):
            if FORBIDDEN_BESIDE_A_NAME & set(body):
                raise invalid(
                    "CachedContent can not be used with GenerateContent request setting system_instruction, "
                    "tools or tool_config."
                )
            resource, cached = self._live(name, asked)
            if resource["model"] != f"models/{model}":
                raise invalid("Model used by GenerateContent request and CachedContent has to be the same.")
        own = {k: v for k, v in body.items() if k != "cachedContent"}
        usage = {
            "promptTokenCount": size(own) + cached, "candidatesTokenCount": 2,
            "totalTokenCount": size(own) + cached + 2,
        }  # fmt: skip
        if cached:
            usage["cachedContentTokenCount"] = cached
        step = self.script.pop(0) if self.script else (chunk(text("Hel")), chunk(text("lo."), stop="STOP"))
        if step and isinstance(step[0], Refused):
            raise step[0]
        return [{"usageMetadata": usage, **piece} for piece in step]


def check(body, model):
    """Refuse what the API refuses of a request."""
    if unknown := set(body) - REQUEST:
        raise invalid(f'Invalid JSON payload received. Unknown name "{min(unknown)}": Cannot find field.')
    if unknown := set(body.get("generationConfig", {})) - CONFIG:
        raise invalid(f'Unknown name "{min(unknown)}" at generation_config')
    if not body.get("contents"):
        raise invalid("contents are required")
    config = body.get("generationConfig", {})
    if int(re.search(r"\d", model)[0]) < 3 and body.get("tools") and "responseMimeType" in config:
        raise invalid("Function calling with a response mime type: 'application/json' is unsupported")
    pending = 0
    for content in body["contents"]:
        assert content["role"] in ("user", "model")
        assert content["parts"], "parts must not be empty"
        answers = sum("functionResponse" in part for part in content["parts"])
        if answers != pending:
            raise invalid(
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
        calls = [part for part in content["parts"] if "functionCall" in part]
        pending = len(calls)
        if calls and int(re.search(r"\d", model)[0]) >= 3 and "thoughtSignature" not in calls[0]:
            raise invalid("Function call is missing a thought_signature in functionCall parts.")
