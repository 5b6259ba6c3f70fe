"""What is known of a line's author, and how that is read from `git blame --incremental`.

Names and summaries were written by anybody: what a terminal would act upon is taken out of them.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import msgspec

State = Literal["committed", "changed", "untracked", "outside", "builtin", "rules", "unknown"]


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The commit that a line stands in since. `date` is the author's, ISO 8601 with the offset of then.

    `earlier`: it is where the history of a shallow clone begins, so the line may be older.
    """

    id: str
    author: str
    date: str
    summary: str
    earlier: bool = False


class Authorship(msgspec.Struct, frozen=True, omit_defaults=True):
    """A commit, or in `note` why there is none.

    `changed`: not committed yet; `untracked`: git does not know the file; `outside`: there is no repository;
    `builtin`: a template that comes with Halo; `rules`: no layer holds it; `unknown`: git could not say.
    """

    state: State
    note: str = ""
    commit: Commit | None = None


_GROUP = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (\d+) (\d+) (\d+)")


def read_incremental(out: bytes) -> dict[int, Commit | None]:
    """Return the commit of each line that git answered for; None where it is not committed yet.

    A group is `<id> <line there> <line here> <count>`, facts (of each commit once), and `filename` last. A
    commit without a parent counts as `earlier`, for git says no more.
    """
    found: dict[int, Commit | None] = {}
    commits: dict[str, Commit | None] = {}
    facts: dict[str, str] = {}
    group: re.Match[bytes] | None = None
    for line in out.split(b"\n"):
        if group is None:
            group, facts = _GROUP.fullmatch(line), {}
            continue
        key, _, value = line.partition(b" ")
        facts[key.decode(errors="replace")] = value.decode(errors="replace")
        if key == b"filename":
            identity = group[1].decode()
            if identity not in commits:
                commits[identity] = _commit(identity, facts)
            first, count = int(group[3]), int(group[4])
            found.update(dict.fromkeys(range(first, first + count), commits[identity]))
            group = None
    return found


def _commit(identity: str, facts: dict[str, str]) -> Commit | None:
    if not identity.strip("0"):
        return None
    return Commit(
        id=identity,
        author=plain(facts.get("author", "")),
        date=_date(facts.get("author-time", ""), facts.get("author-tz", "")),
        summary=plain(facts.get("summary", "")),
        earlier="boundary" in facts,
    )


def _date(seconds: str, zone: str) -> str:
    """Write git's time as ISO 8601; a time that no calendar holds gives nothing."""
    offset = re.fullmatch(r"([+-])(\d\d)(\d\d)", zone)
    minutes = (int(offset[2]) * 60 + int(offset[3])) * (-1 if offset[1] == "-" else 1) if offset else 0
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
        return moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


# Sequences that begin with ESC or its short forms: CSI; OSC, DCS and the like with their text; others.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


def plain(text: str) -> str:
    """Return `text` on one line without escape sequences, control and format characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in _ESCAPE.sub("", text)).split())
