"""Reads session keys, and tells which may be shown and how one is named on disk."""

import hashlib
import string

from halo.errors import SessionKeyError
from halo.records.channels import KEY_WORDS
from halo.sessions.routing.escaping import percent, unescape
from halo.sessions.routing.key import LINKED, NODE, Base, SessionKey

RESERVED = frozenset({"global", "unknown"})

_DIRECT = frozenset({"direct", "dm"})
_ROOMS = frozenset({"group", "channel"})
_SAFE = frozenset(string.ascii_lowercase + string.digits + "-_")
_LONGEST_NAME = 160  # characters; file names may have 255 bytes on common file systems


def parse_key(text: str, *, agent: str = "") -> SessionKey:
    """Read a key. One that names no agent, such as `main` or `cron:nightly`, is a key of `agent`.

    Words and channels are read in any case, ids as they are. A colon in an id may stand as it is, and is
    written as `%3a`. Raises `SessionKeyError`, which says what is wrong.
    """
    key = text.strip()
    if not key:
        raise SessionKeyError("session key: it is empty", hint="the main session is agent:<id>:main")
    if any(char < " " or char == "\x7f" for char in key):
        raise SessionKeyError(
            f"session key: a control character in {key!a}", hint="in an id it is written %xx"
        )
    segments = key.split(":")
    if "" in segments:
        raise SessionKeyError(
            f"session key: nothing stands between two colons, or at an end, in {key!a}",
            hint="an id may not be empty; a colon in an id is %3a",
        )
    if segments[0].lower() == "agent":
        if len(segments) < 3:
            raise SessionKeyError(
                f"session key: {key!a} ends early", hint="agent:<id>:<rest>, such as agent:<id>:main"
            )
        agent, segments = segments[1], segments[2:]
    elif not agent:
        raise SessionKeyError(f"session key: {key!a} names no agent", hint=f"agent:<id>:{key}")
    return _rest(agent, segments)


def normalised(text: str, *, agent: str = "") -> str:
    """Return the one spelling of a key. Raises `SessionKeyError`."""
    return parse_key(text, agent=agent).text


def is_listed(text: str) -> bool:
    """Tell whether lists show a session of this key: none that is reserved, and nothing that is no key."""
    try:
        parse_key(text)
    except SessionKeyError:
        return False
    return True


def file_safe(key: SessionKey) -> str:
    """Name a file after a key: one name each, safe where case is ignored. A long one ends in a digest."""
    name = "".join(char if char in _SAFE else percent(char) for char in key.text)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}~{hashlib.sha256(key.text.encode()).hexdigest()[:32]}"


def _rest(agent: str, segments: list[str]) -> SessionKey:
    """Read what stands behind the agent."""
    base, thread = _split(segments, "thread")
    first = base[0].lower()
    if len(base) == 1 and first in RESERVED:
        raise SessionKeyError(f"session key: {first} is reserved")
    match first:
        case "main" if len(base) == 1:
            return SessionKey(agent, thread=thread)
        case "direct" | "dm":
            linked = len(base) > 1 and base[1].startswith(LINKED)
            peer = _id(base[1:]).removeprefix(LINKED) if linked else _id(base[1:])
            return SessionKey(agent, "direct", peer=peer, thread=thread, linked=linked)
        case "group":
            return _room(agent, "", base, thread)
        case "cron":
            job, run = _split(base, "run")
            return SessionKey(agent, "cron", peer=_id(job[1:]), run=run, thread=thread)
        case "hook":
            return SessionKey(agent, "hook", peer=_id(base[1:]), thread=thread)
        case "node":
            return SessionKey(agent, "node", peer=_id(base[1:]), thread=thread)
        case "subagent":
            return _spawned(agent, base, thread)
        case "agent":
            raise SessionKeyError(
                "session key: it begins with agent:<id> twice", hint="leave one of them out"
            )
    if first.startswith(NODE):
        return SessionKey(agent, "node", peer=_id([base[0][len(NODE) :], *base[1:]]), thread=thread)
    if first in KEY_WORDS:
        raise SessionKeyError(
            f"session key: {':'.join(base)!a} has no such form",
            hint=f"agent:{agent}:main is the main session",
        )
    return _placed(agent, base, thread)


def _placed(agent: str, base: list[str], thread: str) -> SessionKey:
    """Read a key that begins with a channel, or any other name."""
    words = [segment.lower() for segment in base[:3]]
    if len(words) > 1 and words[1] in _ROOMS:
        return _room(agent, words[0], base[1:], thread)
    if len(words) > 1 and words[1] in _DIRECT:
        return SessionKey(agent, "direct", words[0], peer=_id(base[2:]), thread=thread)
    if len(words) > 2 and words[2] in _DIRECT:
        account = unescape(base[1])
        return SessionKey(agent, "direct", words[0], account, _id(base[3:]), thread=thread)
    names = [unescape(segment) for segment in base]
    return SessionKey(agent, "other", peer=names[-1], thread=thread, above=tuple(names[:-1]))


def _room(agent: str, channel: str, base: list[str], thread: str) -> SessionKey:
    base, topic = _split(base, "topic")
    kind: Base = "group" if base[0].lower() == "group" else "channel"
    return SessionKey(agent, kind, channel, peer=_id(base[1:]), topic=topic, thread=thread)


def _spawned(agent: str, base: list[str], thread: str) -> SessionKey:
    if len(base) % 2 or any(word.lower() != "subagent" for word in base[::2]):
        raise SessionKeyError(
            f"session key: {':'.join(base)!a} has no such form", hint="subagent:<id>, again for each level"
        )
    names = [unescape(segment) for segment in base[1::2]]
    return SessionKey(agent, "spawned", peer=names[-1], thread=thread, above=tuple(names[:-1]))


def _split(segments: list[str], word: str) -> tuple[list[str], str]:
    """Take the last `:word:<id>` off; an empty id where there is none."""
    for i in range(len(segments) - 1, 0, -1):
        if segments[i].lower() == word:
            if i == len(segments) - 1:
                raise SessionKeyError(
                    f"session key: no id behind {word}",
                    hint=f"an id that is this word is {percent(word[0])}{word[1:]}",
                )
            return segments[:i], _id(segments[i + 1 :])
    return segments, ""


def _id(segments: list[str]) -> str:
    return unescape(":".join(segments))
