"""The first line of an AGENTS.md that Halo wrote: it tells whose the file is, and whether it was changed."""

import re
from typing import Literal

from halo.files.digests import sha256

# ours: as Halo wrote it; changed: written by Halo and edited since; foreign: somebody else's.
State = Literal["ours", "changed", "foreign"]

_MARK = re.compile(r"<!-- Made by `halo export agents-md`[^\n]* sha256:([0-9a-f]{64}) -->\n")


def with_mark(body: str) -> str:
    """Put the mark before `body`, which ends in a newline."""
    body = f"\n{body}"
    digest = sha256(body.encode())
    return f"<!-- Made by `halo export agents-md` from .halo/; change it there. sha256:{digest} -->\n{body}"


def state_of(text: str) -> State:
    """Tell from canonical `text` who wrote it."""
    match = _MARK.match(text)
    if match is None:
        return "foreign"
    return "ours" if sha256(text[match.end() :].encode()) == match[1] else "changed"
