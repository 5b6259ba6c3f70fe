"""A session as a Markdown document. Pure."""

from collections.abc import Iterator
from html import escape

from halo.records.messages import Image
from halo.sessions.delivery.blocks import lay_out
from halo.sessions.derived import fenced
from halo.sessions.exchange.document import Document, Entry, Remark, Spoken, ToolUse, TurnText
from halo.sessions.exchange.words import facts, one_line, plain, size_of_picture


def markdown_of(document: Document) -> str:
    """Write a document. Messages are as they were written, code that was left open is closed."""
    return "".join([beginning(document), *(turn_text(turn) for turn in document.turns)])


def beginning(document: Document) -> str:
    """Write the title and what is to be said of the whole."""
    title = _escaped(one_line(document.header.title)) or f"Session {document.header.id}"
    rows = "".join(
        f"- {name}: {_escaped(value)}\n" for name, value in facts(document.header, document.figures)
    )
    return f"# {title}\n\n{rows}"


def turn_text(turn: TurnText) -> str:
    """Write a turn."""
    return "\n" + "\n".join(_turn(turn))


def _turn(turn: TurnText) -> Iterator[str]:
    if turn.turn:
        yield f"## Turn {turn.turn} · {one_line(turn.at)}\n"
    for entry in turn.entries:
        yield _entry(entry)
    if turn.figures.text:
        yield f"*{turn.figures.text}*\n"


def _entry(entry: Entry) -> str:
    match entry:
        case Spoken():
            return _spoken(entry)
        case ToolUse():
            return _folded(_title(entry), _tool_body(entry))
        case Remark():
            return f"{plain(entry.text)}\n"


def _spoken(entry: Spoken) -> str:
    parts = [f"### {_escaped(one_line(entry.who))}\n"]
    if entry.text.strip():
        parts.append(closed(plain(entry.text)).strip("\n") + "\n")
    parts += [_picture(image) for image in entry.pictures]
    if entry.given:
        parts.append(_folded("What the model was given", fenced(plain(entry.given))))
    if entry.partial:
        parts.append("*broken off*\n")
    return "\n".join(parts)


def _title(entry: ToolUse) -> str:
    state = " (no result)" if entry.result is None else " (error)" if entry.is_error else ""
    return f"{one_line(entry.tool)}{state}"


def _tool_body(entry: ToolUse) -> str:
    parts = [fenced(plain(entry.arguments))]
    if entry.result is not None:
        parts.append(fenced(plain(entry.result)))
    parts += [_picture(image) for image in entry.pictures]
    return "\n".join(parts)


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n\n{body}\n</details>\n"


def _picture(image: Image) -> str:
    return f"*a picture: {_escaped(one_line(image.media_type))}, {size_of_picture(image.data)}*\n"


def closed(text: str) -> str:
    """Close the code at the end of a text whose closing line is missing: what follows is no part of it."""
    fences = lay_out(text).fences
    if not fences or not fences[-1].is_open:
        return text
    return text.rstrip("\n") + "\n" + fences[-1].closing


def _escaped(text: str) -> str:
    """Return a line in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|&" else c for c in text)
