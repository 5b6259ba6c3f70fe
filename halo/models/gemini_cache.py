"""What a CachedContent of Gemini holds, when to make one, and where its name is kept.

A cached content is a resource at the provider: system instruction, tools and few-shots, immutable, for a
time that is paid for. A request that names one must not repeat what it holds (that is a 400), nor set a tool
configuration. So what changes from turn to turn, the text behind the static prefix, cannot be a system
instruction there: it goes out as the first part of the conversation, marked as what it is, and never enters
the resource.

    <cache>/gemini/<key>.json    0600: the name of a resource and the end of its life, or that there is none

The key is the SHA-256 of everything that must be equal: the rendered content, model, endpoint, account (the
digest of its key). Files hold no key and no text. Those whose time is over go when one is written.
"""

import contextlib
import os
import re
from typing import Any, Literal, NamedTuple

import msgspec

from halo.compiler.tokens import estimate
from halo.files.atomic import replace_file
from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.files.locks import FileLock, hold
from halo.files.regular import read_regular
from halo.models.adapter import Request
from halo.models.gemini_wire import system_instruction
from halo.models.prefix import Prefix
from halo.records.artifacts import CacheTime

Json = dict[str, Any]

FORMAT = 1

# Seconds that a cached content lives.
LIVES: dict[CacheTime, int] = {"5m": 300, "1h": 3600}

# A resource that ends so soon is not named any more: clocks differ, and the request takes its time.
_MARGIN = 15

_LONGEST = 4_000  # bytes of a file of the index
_FILE = re.compile(r"[0-9a-f]{64}\.json")
_NAME = re.compile(r"cachedContents/[A-Za-z0-9._-]{1,200}")

# In the place of a system instruction.
_BEFORE = "The system instructions continue here; the user has not written this:"
_AFTER = "End of the system instructions."


class Static(NamedTuple):
    """What a cached content would hold of a request: its body, and how many of the contents are in it."""

    body: Json
    contents: int
    tokens: int


def is_cacheable(request: Request) -> bool:
    """Say whether the prefix of a request can stand in a resource of its own.

    A request that forbids calls needs a tool configuration, which must not stand beside the name of one.
    """
    return bool(request.prefix.static_prefix.strip()) and request.tool_choice != "none"


def static_content(prefix: Prefix, body: Json, few_shots: list[Json]) -> Static:
    """Return what of the rendered `body` can be cached; `few_shots` are rendered by themselves.

    Nothing behind the static prefix is in it: no value of a slot, no history.
    """
    content: Json = {"systemInstruction": system_instruction(prefix.static_prefix)}
    if "tools" in body:
        content["tools"] = body["tools"]
    if few_shots:
        content["contents"] = few_shots
    rest = {name: value for name, value in content.items() if name != "systemInstruction"}
    tokens = estimate(prefix.static_prefix.encode()) + (estimate(canonical_json(rest)) if rest else 0)
    return Static(content, len(few_shots), tokens)


def begins(body: Json, static: Static) -> bool:
    """Say whether the rendered `body` begins with the few-shots of a cached content.

    Those that end in a message which the history goes on cannot be told apart from it.
    """
    held: list[Json] = static.body.get("contents", [])
    return bool(body["contents"][: static.contents] == held)


def content_key(static: Static, *, model: str, endpoint: str, key: str) -> str:
    """Return the key of a cached content: all that it depends on. `key` is the account's, as its digest."""
    depends = {
        "format": FORMAT,
        "content": static.body,
        "model": model,
        "endpoint": endpoint,
        "account": sha256(key.encode()),
    }
    return sha256(canonical_json(depends))


def naming(body: Json, prefix: Prefix, held_contents: int, name: str) -> Json:
    """Return the request that names a cached content and repeats nothing of it; `body` stays as it is.

    The first `held_contents` of its contents are in it.
    """
    held = {"systemInstruction", "tools", "toolConfig"}
    sent = {field: value for field, value in body.items() if field not in held}
    contents: list[Json] = body["contents"][held_contents:]
    rest = prefix.system[len(prefix.static_prefix) :]
    if rest.strip():
        part = {"text": f"{_BEFORE}\n\n{rest.strip()}\n\n{_AFTER}"}
        if contents and contents[0]["role"] == "user":
            contents[0] = {**contents[0], "parts": [part, *contents[0]["parts"]]}
        else:
            contents.insert(0, {"role": "user", "parts": [part]})
    return {**sent, "contents": contents, "cachedContent": name}


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of one prefix; times are seconds since the epoch.

    `used`: when it was last sent in full. `name` and `until`: the resource, and the end of its life. `tokens`
    are those in it, 0 where nobody said. `fixed`: it cannot be extended. `refused`: none is to be made
    before.
    """

    format: int
    key: str
    used: float = 0.0
    name: str = ""
    until: float = 0.0
    refused: float = 0.0
    tokens: int = 0
    fixed: bool = False


Step = Literal["name", "extend", "make", "note", "none"]


def next_step(kept: Kept | None, cache: CacheTime, now: float) -> Step:
    """Decide what to do for a prefix that is long enough.

    A resource is made for a prefix that has been sent within its lifetime before: making one costs as much
    as sending it, and every hour of it costs, so a prompt that is sent once is better off without. `cache:
    1h` says that more turns will come: it is made at once. One that has less than half of its life is
    extended, which costs one small request and saves making it anew; once that has failed, it ends in time.
    """
    if cache == "off":
        return "none"
    lives = LIVES[cache]
    if kept is not None and kept.name and kept.until > now + _MARGIN:
        return "extend" if kept.until - now < lives / 2 and not kept.fixed else "name"
    if kept is not None and kept.refused > now:
        return "none"
    if cache == "1h":
        return "make"
    # A resource that has just ended was in use while it lived.
    last = max(kept.used, kept.until) if kept is not None else 0.0
    return "make" if now - last <= lives else "note"


class Index:
    """The files of one cache folder. One that cannot be read or written is like none: it only saves money."""

    def __init__(self, cache: str) -> None:
        self.folder = os.path.join(cache, "gemini")
        self._known: dict[str, Kept] = {}

    def get(self, key: str) -> Kept | None:
        """Return what is known of a prefix; a damaged file says nothing."""
        try:
            kept = msgspec.json.decode(read_regular(self._path(key), _LONGEST), type=Kept)
        except (OSError, msgspec.MsgspecError):
            return self._known.get(key)
        whole = kept.format == FORMAT and kept.key == key and (not kept.name or _NAME.fullmatch(kept.name))
        return kept if whole else None

    def put(self, kept: Kept, now: float) -> None:
        """Keep what is known of a prefix, and remove what is over."""
        self._known[kept.key] = kept
        with contextlib.suppress(OSError):
            self._prepare()
            replace_file(self._path(kept.key), msgspec.json.encode(kept), mode=0o600)
            self._sweep(now)

    def lock(self) -> FileLock:
        """Return what only one process may hold: while it makes a resource, others do without.

        Raises OSError where there can be no files.
        """
        self._prepare()
        return hold(os.path.join(self.folder, ".lock"), what="the index of cached contents")

    def _prepare(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o700)

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, f"{key}.json")

    def _sweep(self, now: float) -> None:
        with os.scandir(self.folder) as entries:
            names = [entry.name for entry in entries if _FILE.fullmatch(entry.name)]
        for name in names:
            kept = self.get(name.removesuffix(".json"))
            # Nothing is decided by what lies further back than the longest life.
            if kept is None or max(kept.used, kept.until, kept.refused) + max(LIVES.values()) < now:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))


def is_name(name: object) -> bool:
    """Say whether `name` can be the name of a cached content."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
