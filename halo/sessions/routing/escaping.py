"""Ids of strangers as segments of a session key: reversible, and never read as anything else.

An id keeps its case. Everything but ASCII letters, digits and `-_.@+!#=` is the UTF-8 bytes of the character
as `%xx`; so is a dot at the beginning or behind another one, and the first letter of an id that is spelt like
a word of the grammar.
"""

import re
import string

from halo.errors import SessionKeyError
from halo.records.channels import KEY_WORDS

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.@+!#=")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})?")


def escape(text: str) -> str:
    """Write an id as a segment of a key."""
    pieces: list[str] = []
    before = "."
    for char in text:
        plain = char in _PLAIN and not (char == before == ".")
        pieces.append(char if plain else percent(char))
        before = char
    if text.lower() in KEY_WORDS:
        pieces[0] = percent(text[0])
    return "".join(pieces)


def percent(char: str) -> str:
    """Write a character as the bytes of its UTF-8; half a surrogate pair is three bytes, too."""
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def unescape(segment: str) -> str:
    """Read an id from a segment. Raises `SessionKeyError` where a `%` begins no byte, or bytes no text."""
    if "%" not in segment:
        return segment
    data, end = bytearray(), 0
    for match in _ESCAPED.finditer(segment):
        if match[1] is None:
            raise SessionKeyError(
                f"session key: % without two hex digits in {segment!a}", hint="% itself is %25"
            )
        data += segment[end : match.start()].encode("utf-8", "surrogatepass") + bytes.fromhex(match[1])
        end = match.end()
    data += segment[end:].encode("utf-8", "surrogatepass")
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise SessionKeyError(f"session key: the bytes of {segment!a} are not UTF-8") from None
