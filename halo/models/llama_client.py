"""The HTTP calls to the in-process llama.cpp server: chat, templates, tokens, and the state of its slot."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from halo.errors import ProviderError
from halo.models.failures import Call, from_status, in_stream, malformed, translate
from halo.models.provider_clients import certificates

# Stands in for what follows the static prefix when a chat is rendered; the rendering is cut there.
_MARK = "@@halo-static-prefix-ends-here@@"


class LlamaClient:
    """Talks to one server. All methods raise ProviderError."""

    def __init__(self, call: Call) -> None:
        self._call = call
        # No proxies, and no time limit on reading: the server is this process, and prefill is silent.
        self._http = httpx2.AsyncClient(
            base_url=call.endpoint,
            headers={"Authorization": f"Bearer {call.key}"},
            timeout=httpx2.Timeout(None, connect=10.0),
            trust_env=False,
            verify=certificates(call.endpoint),
            # llama.cpp's server drops idle connections when it likes; a new one costs nothing here.
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def chat(self, body: dict[str, Any]) -> AsyncGenerator[object, None]:
        """Run a streamed chat; yields decoded chunks."""
        try:
            async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    raise from_status(response.status_code, await response.aread(), self._call)
                async for line in response.aiter_lines():
                    if line.startswith("data:") and line != "data: [DONE]":
                        yield self._chunk(line.removeprefix("data:"))
        except httpx2.HTTPError as error:
            raise translate(error, self._call) from error

    def _chunk(self, data: str) -> object:
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise malformed(self._call, str(error)) from error
        if isinstance(chunk, dict) and chunk.get("error"):
            raise in_stream(chunk, self._call)
        return chunk

    async def render_static(self, static_prefix: str, tools: list[dict[str, Any]]) -> str:
        """Render the chat template around a system text up to the end of `static_prefix`.

        Empty when the template does not keep the text as it is, so that it has no place to cut.
        """
        messages = [
            {"role": "system", "content": static_prefix + _MARK},
            {"role": "user", "content": "."},
        ]
        body: dict[str, Any] = {"messages": messages}
        if tools:
            body["tools"] = tools
        rendered = str((await self._post("/apply-template", body))["prompt"])
        before, mark, _ = rendered.partition(_MARK)
        return before if mark and before.endswith(static_prefix) else ""

    async def count(self, text: str) -> int:
        """Count the tokens of rendered text."""
        body = {"content": text, "add_special": True, "parse_special": True}
        return len((await self._post("/tokenize", body))["tokens"])

    async def count_chat(self, body: dict[str, Any]) -> int:
        """Count the prompt tokens of a chat."""
        return int((await self._post("/v1/chat/completions/input_tokens", body))["input_tokens"])

    async def prefill(self, text: str) -> None:
        """Compute the state of rendered text into the slot, and nothing after it."""
        body = {"prompt": text, "n_predict": 0, "cache_prompt": True, "id_slot": 0}
        await self._post("/completion", body)

    async def save(self, name: str) -> tuple[int, int]:
        """Write the slot's state to a file in the states folder; returns its tokens and bytes."""
        saved = await self._post("/slots/0?action=save", {"filename": name})
        return int(saved["n_saved"]), int(saved["n_written"])

    async def restore(self, name: str) -> int:
        """Load the slot's state from a file whose digest is known to be right; returns its tokens.

        llama.cpp aborts the whole process when such a file is cut short, so nothing else may come here.
        """
        return int((await self._post("/slots/0?action=restore", {"filename": name}))["n_restored"])

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            response = await self._http.post(path, json=body)
        except httpx2.HTTPError as error:
            raise translate(error, self._call) from error
        if response.status_code != 200:
            raise from_status(response.status_code, response.content, self._call)
        decoded = response.json()
        if not isinstance(decoded, dict):
            raise ProviderError(f"llama.cpp answered {path} with something else than an object")
        return decoded
