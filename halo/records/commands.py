"""Halo's own words behind a slash. What they do: `halo.sessions.commands.table`."""

from typing import Literal, get_args

Word = Literal[
    "help", "status", "context", "new", "reset", "stop", "compact", "model", "think", "verbose", "send"
]

WORDS: frozenset[str] = frozenset(get_args(Word))
