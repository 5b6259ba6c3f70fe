"""One spelling for every text and every JSON value, so that equal content has equal digests."""

import msgspec

from halo.errors import LayerError

# What an editor leaves behind at the end of a file. Unicode spaces are content and stay.
_TRAILING = " \t\n\v\f"


def canonical_text(data: bytes, source: str) -> str:
    """Decode a source file so that every editor's and platform's spelling of it is the same text.

    A byte order mark goes, CRLF and lone CR become LF, and the end of the file is exactly one newline
    (or nothing when the file is blank). Leading lines stay, so that line numbers match the file.
    `source` names the file in errors.

    Raises LayerError (file and line) for bytes that are not UTF-8 and for NUL.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LayerError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            file=source,
            line=_line_of(data, error.start),
            hint="save the file as UTF-8 (in an editor: 'save with encoding')",
        ) from error
    if "\0" in text:
        raise LayerError(
            "a NUL byte stands in the text",
            file=source,
            line=_line_of(data, data.index(b"\0")),
            hint="remove it; if this is a binary file, it does not belong among the prompt sources",
        )
    # All marks at the start go: two concatenated exports leave two, and removing one would make
    # the canonical form of a canonical form differ.
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip(_TRAILING)
    return text + "\n" if text else ""


def canonical_json(value: object) -> bytes:
    """Encode `value` as UTF-8 JSON with keys sorted at every depth and no spaces.

    NaN and the infinities become null (JSON has none). Raises TypeError for what msgspec cannot encode.
    """
    return msgspec.json.encode(value, order="sorted")


def readable_json(value: object) -> bytes:
    """Encode `value` as `canonical_json` does, but indented by two and ended by a newline, for people."""
    return msgspec.json.format(canonical_json(value), indent=2) + b"\n"


def _line_of(data: bytes, offset: int) -> int:
    """Return the line (from 1) that holds byte `offset`; CRLF and lone CR end a line as LF does."""
    before = data[:offset]
    return before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1
