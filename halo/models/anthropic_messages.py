"""Provider `anthropic`: Messages through the real client, at Anthropic or any server that speaks it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.anthropic_cache import marked
from halo.models.anthropic_wire import PROVIDER, MessagesStream, messages_body, render
from halo.models.count_requests import count_failed, counted, read_count
from halo.models.endpoints import is_own
from halo.models.failures import Call, translate
from halo.models.provider_clients import READ_TIMEOUT, http_options, without_custom_headers
from halo.models.rendering import Rendering

if TYPE_CHECKING:
    import anthropic

# What the client has no parameter for (2.14 dropped sampling), but servers of this protocol take.
_EXTRA = ("temperature", "top_p", "top_k", "seed")

# The events of the protocol; the client's stream adds derived ones of its own.
_RAW = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop"}
)


class AnthropicMessages:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use."""

    provider = PROVIDER

    def __init__(
        self, endpoint: str, key: str, minimum: int | None = None, *, read_timeout: float = READ_TIMEOUT
    ) -> None:
        """`minimum`: tokens of the shortest prefix that the model caches, None where that is not known.

        `read_timeout`: seconds that the other side may be silent.
        """
        self.endpoint = endpoint
        self._key = key
        self._minimum = minimum
        self._read_timeout = read_timeout
        self._own = is_own(self.provider, endpoint)
        self._rendering = Rendering(render)
        self._client: anthropic.AsyncAnthropic | None = None
        self._seed_noticed = False
        self._last_id: str | None = None  # of the last reply: the provider compares the next request with its

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        rendered = self._rendering.of(request.messages)
        body = self._body(request, rendered.messages)
        if request.binding.seed is not None:
            if not self._own:
                body["seed"] = request.binding.seed
            elif not self._seed_noticed:
                self._seed_noticed = True
                yield Notice("Anthropic has no `seed`; it is not sent")
        sent = marked(body, request.prefix.static_prefix, request.binding.cache, self._minimum)
        if self._own:
            sent["diagnostics"] = {"previous_message_id": self._last_id}
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        reply = MessagesStream(call)
        try:
            async with aclosing(self._events(sent)) as events:
                async for event in events:
                    for neutral in reply.feed(event):
                        yield neutral
        except Exception as error:
            raise translate(error, call) from error
        finished = reply.finish(rendered.digest_with(body), body)
        self._last_id = reply.id or None
        yield finished

    def _body(self, request: Request, messages: list[dict[str, Any]]) -> dict[str, Any]:
        body = messages_body(request, messages)
        if request.response_schema is not None:
            config = body.setdefault("output_config", {})
            config["format"] = _output_format(request.response_schema, own=self._own)
        return body

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`."""
        body = counted(self._body(request, Rendering(render).of(request.messages).messages))
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        try:
            return read_count(await self._open().messages.count_tokens(**body), call)
        except Exception as error:
            raise count_failed(error, call) from error

    async def _events(self, body: dict[str, Any]) -> AsyncGenerator[object, None]:
        known = dict(body)
        extra = {name: known.pop(name) for name in _EXTRA if name in known}
        async with self._open().messages.stream(**known, extra_body=extra or None) as stream:
            async for event in stream:
                if event.type in _RAW:
                    exclude = {"message": {"content"}} if event.type == "message_stop" else None
                    yield event.model_dump(exclude=exclude, warnings=False)

    def _open(self) -> "anthropic.AsyncAnthropic":
        if self._client is None:
            import anthropic

            headers: dict[str, Any] = {}
            if not is_own(self.provider, self.endpoint):
                headers = without_custom_headers("ANTHROPIC_CUSTOM_HEADERS", self._key, anthropic.omit)
            self._client = anthropic.AsyncAnthropic(
                api_key=self._key,
                base_url=self.endpoint,
                max_retries=0,
                default_headers=headers,
                open_telemetry=False,
                http_client=anthropic.DefaultAsyncHttpxClient(
                    **http_options(self.endpoint, self._read_timeout)
                ),
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _output_format(schema: dict[str, Any], *, own: bool) -> dict[str, Any]:
    """Render a response schema as `output_config.format`.

    Anthropic takes a subset of JSON Schema; the client's own transformation moves what it does not take
    (bounds, for instance) into descriptions. Other servers get the schema as it is. llama.cpp accepts the
    field and ignores it, which `schema_calls` notices by the reply.
    """
    if not own:
        return {"type": "json_schema", "schema": schema}
    import anthropic

    return {"type": "json_schema", "schema": anthropic.transform_schema(schema)}
