"""Makes, extends and forgets the cached contents of provider `gemini`. A turn never fails because of it."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from halo.errors import BusyError, HaloError
from halo.models.adapter import Request
from halo.models.failures import Call
from halo.models.gemini_cache import (
    FORMAT,
    LIVES,
    Index,
    Kept,
    Static,
    begins,
    content_key,
    is_cacheable,
    is_name,
    next_step,
    static_content,
)
from halo.models.gemini_client import GeminiClient, failed, status_of
from halo.models.gemini_wire import ContentRenderer
from halo.models.prefix import Prefix
from halo.models.rendering import Rendering
from halo.records.artifacts import CacheTime

Json = dict[str, Any]

# Seconds that a call waits for a resource to be made or extended, before it goes without.
_PATIENCE = 60

# Seconds without another attempt: after a refusal, and after a failure that may pass.
_REFUSED = 3600
_LATER = 60

# What is said of a name that is over, or belongs to another account.
_GONE = frozenset({403, 404})


class Held(NamedTuple):
    """A cached content that a request may name, and how many of its contents are in it.

    `tokens` are those in it, as the provider counted them; 0 where it did not. `written`: its tokens, where
    it was made for this call.
    """

    name: str
    key: str
    static: Static
    tokens: int
    written: int = 0


class _Rendered(NamedTuple):
    """What can be cached of a prefix, with its key. Kept, because every step of a turn has the same one."""

    prefix: Prefix
    with_tools: bool
    static: Static
    key: str


class Prefixes:
    """What can be cached of the prefixes that go to one endpoint with one key. The last one is remembered."""

    def __init__(self, endpoint: str, account: str) -> None:
        self._endpoint, self._account = endpoint, account
        self._last: _Rendered | None = None

    def of(self, request: Request, body: Json) -> _Rendered:
        """Return that of a request rendered in `body`."""
        prefix, with_tools = request.prefix, "tools" in body
        known = self._last
        if known is None or known.prefix is not prefix or known.with_tools != with_tools:
            model = request.binding.model
            few_shots = Rendering(ContentRenderer(model)).of(prefix.few_shots).messages
            static = static_content(prefix, body, few_shots)
            key = content_key(static, model=model, endpoint=self._endpoint, key=self._account)
            known = self._last = _Rendered(prefix, with_tools, static, key)
        return known


class Keeper:
    """The cached contents of one model at one endpoint, for one call.

    `minimum`: tokens of the shortest prefix that the model caches; without it nothing is kept. `now` returns
    seconds since the epoch. What there is to tell the user is in `said`, until somebody takes it.
    """

    def __init__(
        self,
        client: GeminiClient,
        index: Index,
        prefixes: Prefixes,
        minimum: int | None,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._index = index
        self._prefixes = prefixes
        self._minimum = minimum
        self._now = now
        self._suspect: str | None = None
        self.said: list[str] = []

    async def find(self, request: Request, body: Json) -> Held | None:
        """Return the cached content that holds the prefix of a request rendered in `body`; make it if due."""
        cache, minimum = request.binding.cache, self._minimum
        if minimum is None or cache == "off" or not is_cacheable(request):
            return None
        found = self._prefixes.of(request, body)
        if found.static.tokens < minimum or not begins(body, found.static):
            return None
        kept, now = self._index.get(found.key), self._now()
        step = next_step(kept, cache, now)
        if step == "make":
            return await self._make(request, found.static, found.key)
        if step == "note":
            self._index.put(Kept(FORMAT, found.key, used=now), now)
        if kept is None or step not in ("name", "extend"):
            return None
        held = Held(kept.name, found.key, found.static, kept.tokens)
        return await self._extend(held, kept, request) if step == "extend" else held

    async def again(self, request: Request, held: Held, error: Exception) -> Held | None:
        """Return what to name after a request that named `held` failed; None: nothing.

        One that is gone is made anew, unless it was made a moment ago.
        """
        now = self._now()
        self._index.put(Kept(FORMAT, held.key, used=now), now)
        if status_of(error) in _GONE and not held.written:
            self.said.append("warning: gemini has lost the prefix that it kept; it is kept anew")
            return await self._make(request, held.static, held.key)
        self._suspect = held.key
        return None

    def settle(self) -> None:
        """Note that the call went through: if it did so in full, its cached content was to blame before."""
        if self._suspect is not None:
            self._note_refusal(self._suspect, _REFUSED)
            self.said.append("warning: gemini refuses a request with the cached prefix; it is sent in full")

    async def _make(self, request: Request, static: Static, key: str) -> Held | None:
        try:
            with self._index.lock():
                return await self._made(request, static, key)
        except BusyError:
            return None  # another process is making it: the next call finds it
        except OSError:
            # Without a folder to keep the name in, the resource would be paid for and never found again.
            return None

    async def _made(self, request: Request, static: Static, key: str) -> Held | None:
        lives, model = LIVES[request.binding.cache], request.binding.model
        begun = self._now()  # it lives from its making, so rather too short than too long
        label = f"halo-{request.prefix.fingerprint[:12] or key[:12]}"
        try:
            async with asyncio.timeout(_PATIENCE):
                name, tokens = await self._client.keep(model, static.body, lives, label)
        except Exception as error:  # noqa: BLE001  # whatever it is, the call goes on without it
            self._say_failed(error, request, key)
            return None
        if not is_name(name):
            self._note_refusal(key, _REFUSED)
            self.said.append("warning: gemini names no cached content that could be used")
            return None
        kept = Kept(FORMAT, key, used=begun, name=str(name), until=begun + lives, tokens=tokens)
        self._index.put(kept, begun)
        self.said.append(f"gemini keeps {tokens:,} tokens of the prompt for {_spoken(request.binding.cache)}")
        return Held(str(name), key, static, tokens, written=tokens or static.tokens)

    async def _extend(self, held: Held, kept: Kept, request: Request) -> Held | None:
        lives, begun = LIVES[request.binding.cache], self._now()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._client.extend(held.name, lives)
        except Exception as error:  # noqa: BLE001  # it still lives for a while, or it is gone
            if status_of(error) in _GONE:
                return await self.again(request, held, error)
            self._index.put(msgspec.structs.replace(kept, fixed=True), begun)
            self.said.append(
                "warning: gemini does not keep the cached prefix for longer, it will be made anew: "
                + self._reason(error, request)
            )
            return held
        self._index.put(msgspec.structs.replace(kept, until=begun + lives), begun)
        return held

    def _say_failed(self, error: Exception, request: Request, key: str) -> None:
        status = status_of(error)
        passing = status is None or status == 429 or status >= 500
        self._note_refusal(key, _LATER if passing else _REFUSED)
        why = self._reason(error, request)
        self.said.append(f"warning: the prefix is sent in full, gemini does not cache it: {why}")

    def _reason(self, error: Exception, request: Request) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer in {_PATIENCE} s"
        call = Call("gemini", self._client.endpoint, request.binding.model, self._client.key)
        told: HaloError = failed(error, call)
        return told.message

    def _note_refusal(self, key: str, seconds: int) -> None:
        now = self._now()
        self._index.put(Kept(FORMAT, key, used=now, refused=now + seconds), now)


def _spoken(cache: CacheTime) -> str:
    return "five minutes" if cache == "5m" else "an hour"
