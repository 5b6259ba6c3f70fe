"""The built-in estimate of token counts, which the manifest uses on every machine alike."""

# Bytes of UTF-8 a token. English prose has about 4.4 in today's vocabularies, Markdown and code 3 to 3.6,
# CJK text about 3; figures per model are a side matter, never part of an artifact.
_BYTES_A_TOKEN = 3.6


def estimate(data: bytes) -> int:
    """Estimate the tokens of UTF-8 text; 0 only for nothing."""
    return -int(-len(data) // _BYTES_A_TOKEN)
