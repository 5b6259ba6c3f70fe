"""Text of a session in documents: nothing in it acts on whoever shows the file."""

import re

from halo.records.headers import Header
from halo.sessions.exchange.document import Figures

# All that is no character to be read: a terminal acts upon some of them, and browsers and editors drop them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Spell out control characters; line feeds and tabs stay."""
    return _CONTROL.sub(
        lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n").replace("\r", "\n")
    )


def one_line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(plain(text).split())


def facts(header: Header, figures: Figures) -> list[tuple[str, str]]:
    """Return what stands at the top of a document: names and values, without those that are empty."""
    rows = [
        ("session", header.id),
        ("agent", header.agent),
        ("model", header.model),
        ("begun", header.created_at),
        ("changed", header.updated_at),
        ("turns", f"{header.turns:,}" if header.turns else ""),
        ("used", figures.text),
    ]
    return [(name, one_line(value)) for name, value in rows if value]


def size_of_picture(data: str) -> str:
    """Say how large a picture is, by its base64."""
    size = len(data) * 3 // 4
    return f"{size / 1024:,.0f} KiB" if size >= 1024 else f"{size:,} bytes"
