"""Answers that say that there is no answer. Pure."""

from halo.sessions.delegation.reports import ANNOUNCE_SKIP, REPLY_SKIP

# The whole answer, in any case, white space around it aside.
NO_REPLY = "NO_REPLY"

_EXACT = (REPLY_SKIP, ANNOUNCE_SKIP)


def is_silent(text: str) -> bool:
    """Tell whether an answer is none: NO_REPLY in any case, or one of the skip words exactly."""
    said = text.strip()
    return said.upper() == NO_REPLY or said in _EXACT


def may_become_silent(text: str) -> bool:
    """Tell whether an answer that begins so may still be none: then nothing of it is shown."""
    said = text.strip()
    words = (NO_REPLY.startswith(said.upper()), *(word.startswith(said) for word in _EXACT))
    # Behind the whole word white space may follow, within it none.
    return any(words) and (is_silent(text) or not said or text.rstrip() == text)
