"""What a server sent, as text: which charset it is in, and whether it is text at all."""

import codecs
import re

# Encodings that pages of the web are in, by the names that Python gives them. Others that Python knows are
# none (`zip`, `punycode`), or are only there to slip something past a filter (`utf-7`).
_ENCODINGS = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"),
        *("big5", "big5hkscs", "gb2312", "gbk", "gb18030", "euc_jp", "shift_jis", "cp932", "iso2022_jp"),
        *("euc_kr", "cp949", "cp866", "cp874"),
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in (*range(2, 12), *range(13, 17))),
    }
)
# What pages call by these names is the larger Windows code page, as browsers read it.
_WESTERN = frozenset({"ascii", "iso8859-1"})

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:+-]{1,40})""", re.IGNORECASE)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:+-]{1,40})|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 1024  # bytes, as in browsers

_TEXT = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml)|application/(?:x-)?(?:javascript|ecmascript|ndjson|"
    r"jsonlines|sh|yaml|tex|sql|graphql)|application/x-www-form-urlencoded|image/svg\+xml|message/.*"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def as_text(body: bytes, content_type: str) -> str | None:
    """Return a body, which may end in the middle of a character, as text; None where it is none.

    The mark at its beginning counts first, then the charset of the header, then the one that a page names
    itself; without one it is UTF-8, or Windows-1252 if it cannot be UTF-8. What is not of a type that is
    known to be text must be UTF-8 throughout, without control characters.
    """
    kind = content_type.partition(";")[0].strip().lower()
    encoding = _encoding(body, content_type)
    if not _TEXT.fullmatch(kind):
        text = _decoded(body, encoding if encoding == "utf-8-sig" else "utf-8", "strict")
        return None if text is None or _CONTROLS.search(text) else text
    if encoding is None:
        text = _decoded(body, "utf-8", "strict")
        text = text if text is not None else _decoded(body, "cp1252", "replace")
    else:
        text = _decoded(body, encoding, "replace")
    return None if text is None or "\0" in text else text


def _encoding(body: bytes, content_type: str) -> str | None:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    named = _CHARSET.search(content_type)
    if named is not None and (known := _known(named[1])):
        return known
    declared = _DECLARED.search(body[:_DECLARED_WITHIN])
    if declared is None:
        return None
    known = _known((declared[1] or declared[2]).decode("ascii", "replace"))
    # It was read as ASCII, so it cannot be UTF-16, whatever it says.
    return "utf-8" if known is not None and known.startswith("utf-16") else known


def _known(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    if found in _WESTERN:
        return "cp1252"
    return found if found in _ENCODINGS else None


def _decoded(body: bytes, encoding: str, errors: str) -> str | None:
    try:
        # Not final: half a character at the end is the cut's fault.
        return codecs.getincrementaldecoder(encoding)(errors).decode(body)
    except UnicodeError:
        return None
