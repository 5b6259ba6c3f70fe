"""What OpenAI's two protocols share: the client of an endpoint, what asks it to cache, the count."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from halo.models.adapter import Request
from halo.models.count_requests import count_failed, read_count, responses_count_body
from halo.models.endpoints import is_own
from halo.models.failures import Call
from halo.models.openai_cache import cache_fields, wants_mark
from halo.models.provider_clients import READ_TIMEOUT, openai_client
from halo.models.rendering import Render
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Capabilities

if TYPE_CHECKING:
    import openai


class OpenAIEndpoint(ABC):
    """One endpoint (normalised) with one key; the client is made on first use."""

    def __init__(
        self,
        provider: str,
        endpoint: str,
        key: str,
        *,
        capabilities: Capabilities = UNKNOWN_CAPABILITIES,
        minimum: int | None = None,
        read_timeout: float = READ_TIMEOUT,
        counted: Render | None = None,
    ) -> None:
        """`minimum`: tokens of the shortest prefix that the model caches, None where that is not known.

        `read_timeout`: seconds that the other side may be silent. `counted` renders a history for the count;
        without it, thoughts that could go back are not counted.
        """
        self.provider = provider
        self.endpoint = endpoint
        self._key = key
        self._capabilities = capabilities
        self._minimum = minimum
        self._read_timeout = read_timeout
        self._counted = counted
        self._own = is_own(provider, endpoint)
        self._client: openai.AsyncOpenAI | None = None
        self._said: set[str] = set()

    def _call(self, request: Request) -> Call:
        return Call(self.provider, self.endpoint, request.binding.model, self._key)

    def _is_new(self, notice: str) -> bool:
        """Tell whether a notice has not been given yet; from now on it has."""
        new = notice not in self._said
        self._said.add(notice)
        return new

    def _cached(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with what asks OpenAI to cache; other servers refuse what they do not know."""
        if self.provider != "openai" or not self._own:
            return body
        body = body | cache_fields(request, self._capabilities)
        if wants_mark(request, self._capabilities, self._minimum):
            self._mark(request, body)
        return body

    @abstractmethod
    def _mark(self, request: Request, body: dict[str, Any]) -> None:
        """Mark in `body` where the prefix ends that is to be cached."""

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`.

        Chat Completions has no endpoint that counts; OpenAI's Responses puts the same before the same models.
        """
        call = self._call(request)
        try:
            body = responses_count_body(request, self._counted)
            return read_count(await self._open().responses.input_tokens.count(**body), call)
        except Exception as error:
            raise count_failed(error, call) from error

    def _open(self) -> "openai.AsyncOpenAI":
        if self._client is None:
            self._client = openai_client(self.provider, self.endpoint, self._key, self._read_timeout)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
