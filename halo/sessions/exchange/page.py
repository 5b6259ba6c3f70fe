"""A session as one HTML file: no script, nothing from elsewhere, nothing in it that acts. Pure.

Everything that somebody said is escaped, or goes through a Markdown parser that passes no HTML and makes no
pictures; links lead to http, https and mailto alone. What may not be is also forbidden by a policy in the
page itself.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from html import escape

from halo.records.messages import Image
from halo.sessions.exchange.document import Document, Entry, Remark, Spoken, ToolUse, TurnText
from halo.sessions.exchange.page_style import STYLE
from halo.sessions.exchange.words import facts, one_line, plain, size_of_picture

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LINKS = ("http://", "https://", "mailto:")

# Characters of a message that is read as Markdown; a longer one is shown as it is written.
_LARGEST = 200_000

Markup = Callable[[str], str]


def page_of(document: Document) -> str:
    """Write a document as HTML."""
    title = one_line(document.header.title) or f"Session {document.header.id}"
    markup = _markup()
    parts = [
        "<!doctype html>\n",
        f'<html lang="">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n',
        '<meta name="referrer" content="no-referrer">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n',
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        f'<h1 dir="auto">{escape(title)}</h1>\n<dl>\n',
        *(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n"
            for name, value in facts(document.header, document.figures)
        ),
        "</dl>\n",
        *(part for turn in document.turns for part in _turn(turn, markup)),
        "</main>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def _turn(turn: TurnText, markup: Markup) -> Iterator[str]:
    yield "<section>\n"
    if turn.turn:
        at = escape(one_line(turn.at))
        yield f'<h2 id="turn-{turn.turn}">Turn {turn.turn} <time>{at}</time></h2>\n'
    for entry in turn.entries:
        yield _entry(entry, markup)
    if turn.figures.text:
        yield f'<p class="figures">{escape(turn.figures.text)}</p>\n'
    yield "</section>\n"


def _entry(entry: Entry, markup: Markup) -> str:
    match entry:
        case Spoken():
            return _spoken(entry, markup)
        case ToolUse():
            state = " (no result)" if entry.result is None else " (error)" if entry.is_error else ""
            result = "" if entry.result is None else _code(entry.result)
            pictures = "".join(map(_picture, entry.pictures))
            return _folded(one_line(entry.tool) + state, _code(entry.arguments) + result + pictures)
        case Remark():
            return f'<div class="remark">{markup(plain(entry.text))}</div>\n'


def _spoken(entry: Spoken, markup: Markup) -> str:
    role = "assistant" if entry.who == "Assistant" else "user"
    parts = [f'<article class="{role}" dir="auto">\n<h3>{escape(one_line(entry.who))}</h3>\n']
    if entry.text.strip():
        parts.append(markup(plain(entry.text)))
    parts += map(_picture, entry.pictures)
    if entry.given:
        parts.append(_folded("What the model was given", _code(entry.given)))
    if entry.partial:
        parts.append('<p class="remark">broken off</p>\n')
    parts.append("</article>\n")
    return "".join(parts)


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{body}</details>\n"


def _code(text: str) -> str:
    return f"<pre><code>{escape(plain(text))}</code></pre>\n"


def _picture(image: Image) -> str:
    """Show a picture of a kind that only shows, if its bytes are there; else name it."""
    try:
        base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        shown = False
    else:
        shown = image.media_type in _PICTURES
    said = f"a picture: {one_line(image.media_type)}, {size_of_picture(image.data)}"
    if not shown:
        return f'<p class="remark">{escape(said)}</p>\n'
    return f'<img alt="{escape(said)}" src="data:{image.media_type};base64,{escape(image.data)}">\n'


def _markup() -> Markup:
    """Return what makes HTML of the Markdown of strangers."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = _leads_out  # type: ignore[method-assign]  # how this parser is told

    def markup(text: str) -> str:
        html: str = _code(text) if len(text) > _LARGEST else parser.render(text)
        return html

    return markup


def _leads_out(url: str) -> bool:
    """Tell whether a link is one that a reader may follow: not into files, programs or the page itself."""
    return url.strip().lower().startswith(_LINKS)
