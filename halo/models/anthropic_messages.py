"""Provider `anthropic`: Messages through the real client, at Anthropic or any server that speaks it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.anthropic_cache import marked
from halo.models.anthropic_wire import PROVIDER, MessagesStream, messages_body, render
from halo.models.count_requests import count_failed, counted, read_count
from halo.models.endpoints import is_own
from halo.models.failures import Call, translate
from halo.models.provider_clients import READ_TIMEOUT, events_of, http_options, without_custom_headers
from halo.models.rendering import Rendering

if TYPE_CHECKING:
    import anthropic

    from halo.records.messages import Message


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
        # The last reply's id, and what it answered: the provider compares the request that goes on with that.
        self._last: tuple[str, tuple[Message, ...]] | None = None

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
        sent = {**sent, "stream": True}
        if self._own and request.binding.cache != "off":
            sent["diagnostics"] = {"previous_message_id": self._previous(request)}
        call = Call(self.provider, self.endpoint, request.binding.model, self._key)
        reply = MessagesStream(call)
        try:
            async with aclosing(events_of(self._open(), "/v1/messages", sent)) as events:
                async for event in events:
                    for neutral in reply.feed(event):
                        yield neutral
            finished = reply.finish(rendered.digest_with(body), body)
        except Exception as error:
            for lost in reply.lost():
                yield lost
            raise translate(error, call) from error
        self._last = (reply.id, request.messages) if reply.id else None
        yield finished

    def _previous(self, request: Request) -> str | None:
        """Return the id of the reply that a request follows; other conversations lose no cache by it."""
        if self._last is None:
            return None
        identity, before = self._last
        return identity if request.messages[: len(before)] == before else None

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

    # It stumbles over parts of JSON Schema (several types, none at all): then the provider judges.
    with suppress(Exception):
        schema = anthropic.transform_schema(schema)
    return {"type": "json_schema", "schema": schema}
