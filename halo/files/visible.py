"""Text of strangers as a terminal may be given it: nothing in it acts, and no message fills the screen."""

_JOINERS = "\u200c\u200d"

# Categories that a terminal acts upon or does not show.
_SPELT = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cs"})

_LONGEST = 2_000  # characters of a message
_HEAD, _TAIL = 1_500, 300


def visible(text: str) -> str:
    """Spell out control, bidirectional and other invisible characters, for a terminal and its reader.

    Tabs stay, and the joiners of letters and pictures.
    """
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    return "".join(
        c
        if c == "\t" or c in _JOINERS or unicodedata.category(c) not in _SPELT
        else c.encode("unicode_escape").decode()
        for c in text
    )


def shown(text: str) -> str:
    """Make a message fit to be shown: visible, and of one that repeats a whole file head and tail."""
    if len(text) > _LONGEST:
        left = len(text) - _HEAD - _TAIL
        text = f"{text[:_HEAD]} [… {left:,} characters …] {text[-_TAIL:]}"
    return visible(text)
