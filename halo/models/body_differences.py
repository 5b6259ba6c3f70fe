"""Where two request bodies differ first, in the order in which providers read them: tools, system, messages.

Bodies of one conversation share the values of their earlier messages (`halo.models.rendering`), so a history
of ten thousand messages is compared by identity and only what is new is looked into. Pure.
"""

from typing import Any

from halo.files.canonical import canonical_json
from halo.models.byte_differences import first_difference

Body = dict[str, Any]

# Fields by what they are, in the words of each protocol.
_TOOLS = ("tools", "tool_config", "toolConfig", "tool_choice", "toolChoice")
_SYSTEM = (
    "system",
    "instructions",
    "system_instruction",
    "systemInstruction",
    "cachedContent",
    "cached_content",
)
_MESSAGES = ("messages", "input", "contents")

# What changes the reply and not what is cached.
_SAMPLING = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "stream",
        "stream_options",
        "diagnostics",
    }
)


def body_difference(before: Body, after: Body) -> str:
    """Say where `after` stops being a continuation of `before`; empty when it is one."""
    names = sorted((before.keys() | after.keys()) - _SAMPLING, key=_rank)
    for name in names:
        old, new = before.get(name), after.get(name)
        if old is new:
            continue
        if name in _MESSAGES and isinstance(old, list) and isinstance(new, list):
            if found := _in_messages(old, new):
                return found
        elif old != new:
            return _told("system text" if name in _SYSTEM else name, _text(old), _text(new))
    return ""


def _rank(name: str) -> tuple[int, str]:
    order = (("model",), _TOOLS, _SYSTEM, _MESSAGES)
    return next((i for i, names in enumerate(order) if name in names), len(order)), name


def _in_messages(old: list[Any], new: list[Any]) -> str:
    for index, message in enumerate(old):
        if index >= len(new):
            return f"message {index + 1} is gone"
        if message is new[index] or message == new[index]:
            continue
        system = isinstance(message, dict) and message.get("role") in ("system", "developer")
        where = "system text" if system else f"message {index + 1}"
        before, after = _contents(message, new[index])
        return _told(where, _text(before), _text(after))
    return ""


def _contents(old: Any, new: Any) -> tuple[Any, Any]:
    """Return the texts alone where only they differ, so that an offset is one in what was said."""
    if isinstance(old, dict) and isinstance(new, dict):
        texts = old.get("content"), new.get("content")
        if all(isinstance(text, str) for text in texts) and texts[0] != texts[1]:
            return texts
    return old, new


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else b"" if value is None else canonical_json(value)


def _told(where: str, old: bytes, new: bytes) -> str:
    found = first_difference(old, new)
    return f"{where}, byte {found.at:,}: {found.before} became {found.after}"
