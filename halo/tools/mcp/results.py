"""What a server answers, as a model is given it: text and pictures."""

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from halo.records.messages import Image
from halo.tools.base import Answer, brief

if TYPE_CHECKING:
    import mcp_types

_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_IMAGE = 4 << 20  # bytes; providers take about as much
_MOST_IMAGES = 8


def answer_of(result: "mcp_types.CallToolResult") -> Answer:
    """Turn a result into text and pictures; what is neither is named.

    Structured content is told as JSON unless the texts of the result say the same, as the protocol wants it.
    """
    lines: list[str] = []
    images: list[Image] = []
    for block in result.content:
        text = _text_of(block, images)
        if text:
            lines.append(text)
    structured = result.structured_content
    if structured is not None and not _say(lines, structured):
        lines.append(json.dumps(structured, ensure_ascii=False))
    if not lines and not images:
        lines.append("(no content)")
    return Answer("\n".join(lines), tuple(images))


def _text_of(block: "mcp_types.ContentBlock", images: list[Image]) -> str:
    match block.type:
        case "text":
            return block.text
        case "image":
            return _picture(block.mime_type, block.data, images)
        case "audio":
            return f"[a sound of the type {brief(block.mime_type)}, which cannot be shown]"
        case "resource_link":
            more = f": {brief(block.description)}" if block.description else ""
            return f"[{brief(block.name)}]({brief(str(block.uri))}){more}"
        case "resource":
            return _resource(block.resource, images)


def _resource(resource: Any, images: list[Image]) -> str:
    where, kind = brief(str(resource.uri)), resource.mime_type or "application/octet-stream"
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[{where}]\n{text}"
    if kind in _SHOWN:
        return _picture(kind, resource.blob, images) or f"[{where}]"
    return f"[{where}: bytes of the type {brief(kind)}, which cannot be shown]"


def _picture(kind: str, data: str, images: list[Image]) -> str:
    """Keep a picture that models can be shown; else say what it is."""
    named = f"[a picture of the type {brief(kind)}"
    if kind not in _SHOWN:
        return f"{named}, which cannot be shown]"
    if len(images) == _MOST_IMAGES or len(data) > _LARGEST_IMAGE * 4 // 3 + 4:
        return f"{named}, too large or one too many to be shown]"
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"{named}, which is damaged]"
    images.append(Image(kind, data))
    return ""


def _say(lines: list[str], structured: Any) -> bool:
    """Tell whether the texts say what is structured: one of them all of it, or each an item of a list.

    Structured content is an object always, so servers put a value that is none under `result`.
    """
    values = [structured]
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        values.append(structured["result"])
    if any(_says(line, value) for line in lines for value in values):
        return True
    items = values[-1]
    return isinstance(items, list) and len(items) == len(lines) > 0 and all(map(_says, lines, items))


def _says(text: str, structured: Any) -> bool:
    if isinstance(structured, str) and text == structured:
        return True
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(said == structured)
