"""The client of provider `gemini` (google-genai), and what it raises.

Bodies go out as they were rendered, through the client's field for further parts of a body: its typed way
walks the whole history to convert what needs no conversion. Nothing is taken from the environment: neither
another key (GOOGLE_API_KEY), nor another address, nor a project of Vertex AI.
"""

import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from halo.errors import HaloError, MissingEngineError
from halo.models.endpoints import OWN_ENDPOINTS
from halo.models.failures import Call, from_status, translate
from halo.models.gemini_wire import PROVIDER
from halo.models.provider_clients import READ_TIMEOUT, http_options

if TYPE_CHECKING:
    import httpx2
    from google import genai

Json = dict[str, Any]

_VERSION = "v1beta"  # the API's; the one in which cached contents are documented

# Tells the answers to streams apart on their way through the client; it is not sent.
_NUMBER = "x-halo-number"

# The client insists on contents of its own; those of the body take their place.
_INSTEAD = "-"


def require_client() -> None:
    """Raise MissingEngineError unless the client is installed; it is not imported."""
    try:
        found = find_spec("google.genai") is not None
    except ModuleNotFoundError:  # there is no `google` at all
        found = False
    if not found:
        raise _missing("it is not installed")


class GeminiClient:
    """Speaks to one endpoint (normalised) with one key; the client is made on first use.

    Errors are the client's: `failed` translates them.
    """

    def __init__(self, endpoint: str, key: str, read_timeout: float = READ_TIMEOUT) -> None:
        self.endpoint = endpoint
        self.key = key
        self._read_timeout = read_timeout
        self._client: genai.Client | None = None
        self._http: httpx2.AsyncClient | None = None
        self._numbers = itertools.count()
        self._answers: dict[str, httpx2.Response] = {}  # of the streams that are open

    async def chunks(self, body: Json) -> AsyncGenerator[Json, None]:
        """Send a streamed call and yield its chunks as decoded JSON."""
        model, extra = _split(body)
        number = str(next(self._numbers))
        stream = await self._open().aio.models.generate_content_stream(
            model=model,
            contents=_INSTEAD,
            config={
                "http_options": {"extra_body": extra, "headers": {_NUMBER: number}},
                # What Halo does itself: running tools, calling again.
                "automatic_function_calling": {"disable": True},
                "automatic_continuation": False,
            },
        )
        try:
            async for chunk in stream:
                yield chunk.model_dump(
                    mode="json",
                    by_alias=True,
                    exclude_none=True,
                    exclude={"sdk_http_response"},
                    warnings=False,
                )
        finally:
            await self._end(number, stream)

    async def _end(self, number: str, stream: "AsyncIterator[object]") -> None:
        """Let go of a stream's connection.

        The client itself does so when it has read everything, else when the garbage is collected.
        """
        response = self._answers.pop(number, None)
        if response is None or response.is_closed:
            return
        await response.aclose()
        with contextlib.suppress(Exception):  # there is nothing left to read, and that ends its generators
            async for _ in stream:
                pass

    async def count(self, body: Json) -> object:
        """Ask for the tokens of the body of a call."""
        model, extra = _split(body)
        # The contents are inside of the request that is counted; beside it there must be none.
        counted = {"contents": [], "generateContentRequest": {"model": _resource(model), **extra}}
        answered = await self._open().aio.models.count_tokens(
            model=model, contents=_INSTEAD, config={"http_options": {"extra_body": counted}}
        )
        return answered.total_tokens

    async def keep(self, model: str, content: Json, lives: int, label: str) -> tuple[object, int]:
        """Make a cached content that lives so many seconds; return its name and its tokens."""
        made = await self._open().aio.caches.create(
            model=model,
            config={
                "ttl": f"{lives}s",
                "display_name": label,
                "http_options": {"extra_body": content},
            },
        )
        used = made.usage_metadata
        return made.name, (used.total_token_count or 0) if used is not None else 0

    async def extend(self, name: str, lives: int) -> None:
        """Let a cached content live so many seconds from now on."""
        await self._open().aio.caches.update(name=name, config={"ttl": f"{lives}s"})

    def _open(self) -> "genai.Client":
        if self._client is None:
            import httpx2

            # It warns of variables that are not used here, and without a handler that goes to stderr.
            logging.getLogger("google_genai").addHandler(logging.NullHandler())
            try:
                from google import genai
                from google.genai import types

                options = http_options(self.endpoint, self._read_timeout)
                self._http = httpx2.AsyncClient(**self._hooked(options))
                self._client = genai.Client(
                    vertexai=False,
                    api_key=self.key,
                    http_options=types.HttpOptions(
                        base_url=self.endpoint,
                        api_version=_VERSION,
                        httpx_async_client=self._http,
                        # For clients that are not used; else it loads the authorities twice more.
                        client_args={"verify": options["verify"]},
                        async_client_args={"ssl": options["verify"]},
                    ),
                )
            except ImportError as error:
                raise _missing(f"it cannot be imported: {error}") from error
        return self._client

    def _hooked(self, options: dict[str, Any]) -> dict[str, Any]:
        """Let the timeouts hold, which the client above takes away, and keep hold of streams."""
        timeouts = options["timeout"].as_dict()
        hooks = options["event_hooks"]

        async def asked(request: "httpx2.Request") -> None:
            number = request.headers.pop(_NUMBER, "")
            request.extensions = {**request.extensions, "timeout": timeouts, _NUMBER: number}

        async def answered(response: "httpx2.Response") -> None:
            if number := response.request.extensions.get(_NUMBER):
                self._answers[number] = response

        return {**options, "event_hooks": {"request": [asked], "response": [*hooks["response"], answered]}}

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        http, self._http = self._http, None
        if client is not None:
            client.close()
        if http is not None:
            await http.aclose()


def failed(error: Exception, call: Call) -> HaloError:
    """Turn what the client raised into the error that the user sees."""
    status = status_of(error)
    if status is None:
        return translate(error, call)
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return from_status(status, getattr(error, "details", None), call, headers)


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error of the API; None for any other error."""
    status = getattr(error, "code", None)
    known = isinstance(status, int) and hasattr(error, "details") and status >= 300
    return status if known else None


def _split(body: Json) -> tuple[str, Json]:
    """Take the model, which stands in the address, out of a body."""
    return body["model"], {name: value for name, value in body.items() if name != "model"}


def _resource(model: str) -> str:
    return model if "/" in model else f"models/{model}"


def _missing(why: str) -> MissingEngineError:
    return MissingEngineError(
        f"provider {PROVIDER} needs google-genai: {why}",
        hint=f"pip install 'halo-make[gemini]' (it speaks to {OWN_ENDPOINTS[PROVIDER]})",
    )
