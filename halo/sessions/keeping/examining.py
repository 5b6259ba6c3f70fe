"""Looks at sessions for what `halo session repair` would do. Nothing is written."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

from halo.errors import LogError
from halo.files.log import TORN_TAIL
from halo.files.regular import open_regular
from halo.records.damage import DamageReport
from halo.records.headers import Header
from halo.sessions.attachments import FOLDER as ATTACHMENTS
from halo.sessions.derived import TRANSCRIPT, header_of, render, stored_header, transcript_start
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.inbox.folder import FOLDER as INBOX
from halo.sessions.inbox.folder import Inbox
from halo.sessions.keeping.damage import damage_of, reported
from halo.sessions.reading import Unread
from halo.sessions.routing.finding import is_held

# What is done: a turn is ended, the derived files and the report of damage are written, messages that the log
# knows are removed from the inbox, files are removed; or the finding is only told of.
Remedy = Literal["mend", "derive", "report", "inbox", "leftovers", "mark", "none"]

_TEMPORARY = re.compile(r"\..+\.\d+-[0-9a-f]{12}\.tmp\Z")
RECENT = 86_400.0  # seconds: what is younger may be somebody's who is at work


class Finding(NamedTuple):
    """Something that is not as it should be: what, and what repair does about it.

    `wrong`: nothing can be done and somebody should look; without it and without a remedy it is only said.
    """

    text: str
    remedy: Remedy
    action: str = ""
    wrong: bool = False


class Examined(NamedTuple):
    """What was found of a session; `header` is what its log says, None where it cannot be read."""

    folder: SessionFolder
    findings: tuple[Finding, ...]
    header: Header | None = None
    held: bool = False


def examine(folder: SessionFolder, marks: frozenset[str], now: float) -> Examined:
    """Look at one session. `marks` are the ids of those for which messages are said to wait."""
    if not folder.exists():
        return Examined(folder, tuple(_without_log(folder)))
    with suppress(OSError):
        if is_held(folder):
            return Examined(folder, (Finding("a process holds it: it is left alone", "none"),), held=True)
    try:
        conversation, transcript = _read(folder)
        damage = damage_of(folder)
    except LogError as error:
        text = f"its log cannot be used and is left alone: {error.message}"
        return Examined(folder, (Finding(text, "none", wrong=True),))
    except OSError as error:
        text = f"its log cannot be read and is left alone: {error.strerror}"
        return Examined(folder, (Finding(text, "none", wrong=True),))
    size = os.lstat(folder.events).st_size
    header = header_of(folder.id, conversation, log_bytes=size, transcript_bytes=transcript.bytes)
    if conversation.newer:
        text = f"a later version of Halo wrote to it: it is left alone ({conversation.newer[0]})"
        return Examined(folder, (Finding(text, "none"),), header)
    if not conversation.seq:
        return Examined(folder, tuple(_unusable(damage)))
    found = [
        *_log(conversation, damage),
        *_derived(folder, header, transcript),
        *_damage(folder, damage),
        *_inbox(folder, conversation, marks),
        *_leftovers(folder, now),
    ]
    return Examined(folder, tuple(found), header)


class _Transcript(NamedTuple):
    """What the transcript of a log is: its length and digest."""

    bytes: int
    sha256: str


def _read(folder: SessionFolder) -> tuple[Conversation, _Transcript]:
    conversation = Conversation()
    first = transcript_start(folder.id)
    digest, count = hashlib.sha256(first), len(first)
    for event in folder.read_events():
        if isinstance(event, Unread):
            conversation.miss(event)
        else:
            conversation.add(event)
        text = render(event).encode()
        digest.update(text)
        count += len(text)
    return conversation, _Transcript(count, digest.hexdigest())


def _without_log(folder: SessionFolder) -> Iterator[Finding]:
    count = Inbox(folder.path).count()
    if count:
        text = (
            f"it has no log, and {count} in its inbox: a session that was deleted while somebody wrote to it?"
        )
        yield Finding(text, "none", wrong=True)


def _unusable(damage: DamageReport) -> Iterator[Finding]:
    """Say what is wrong with a log of which no line is good; an empty one is a session that never began."""
    if damage.lost:
        yield Finding("no line of its log is good: it is left alone", "none", wrong=True)


def _log(conversation: Conversation, damage: DamageReport) -> Iterator[Finding]:
    torn = next((lost for lost in damage.lost if lost.problem == TORN_TAIL), None)
    if torn is not None:
        text = f"its last line broke off ({torn.bytes:,} bytes)"
        yield Finding(text, "mend", "close it with a newline; it stays where it is")
    if conversation.open_turn:
        count = len(conversation.open_calls)
        calls = {0: "", 1: ", and its call without a result as well"}.get(
            count, f", and its {count} calls as well"
        )
        yield Finding(f"turn {conversation.turn} broke off", "mend", f"record that it was interrupted{calls}")


def _derived(folder: SessionFolder, header: Header, transcript: _Transcript) -> Iterator[Finding]:
    stored = stored_header(folder)
    if stored is None and not header.turns:
        return  # the first turn makes them
    if stored != header:
        state = "is missing" if stored is None else "is not what the log says"
        yield Finding(f"session.json {state}", "derive", "make it anew")
    path = os.path.join(folder.path, TRANSCRIPT)
    try:
        with open_regular(path) as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == transcript.sha256
    except OSError:
        yield Finding("transcript.md is missing", "derive", "make it anew")
        return
    if not same:
        yield Finding("transcript.md is not what the log says", "derive", "make it anew")


def _damage(folder: SessionFolder, damage: DamageReport) -> Iterator[Finding]:
    known = reported(folder)
    lost = tuple(each for each in damage.lost if each.problem != TORN_TAIL)
    if not lost and known is None:
        return
    first = f": {lost[0].problem}, line {lost[0].line}" if lost else ""
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    text = f"its log is damaged{first}{more}" if lost else "damage.json tells of damage that is not there"
    if known is not None and known.lost == lost:
        yield Finding(f"{text}; damage.json tells of it, the log stays as it is", "none")
    else:
        yield Finding(text, "report", "write down what is lost in damage.json; the log stays as it is")


def _inbox(folder: SessionFolder, conversation: Conversation, marks: frozenset[str]) -> Iterator[Finding]:
    waiting, problems = Inbox(folder.path).waiting()
    for problem in problems:
        yield Finding(f"a message cannot be read and stays where it is: {problem}", "none", wrong=True)
    taken = [w for w in waiting if w.message.id in conversation.standing.taken]
    if taken:
        text = f"{_count(len(taken), 'message')} in the inbox that the log has already"
        yield Finding(text, "inbox", f"remove {'it' if len(taken) == 1 else 'them'} from the inbox")
    if len(waiting) > len(taken) and folder.id not in marks:
        text = f"{_count(len(waiting) - len(taken), 'message')} waiting, and no worker is told"
        yield Finding(text, "mark", "mark the session")


def _leftovers(folder: SessionFolder, now: float) -> Iterator[Finding]:
    count = len(leftovers(folder, now))
    if count:
        yield Finding(f"{_count(count, 'file')} that a dead process left behind", "leftovers", "remove them")


def leftovers(folder: SessionFolder, now: float) -> list[str]:
    """Return the temporary files of a session that nobody can be at work on any more."""
    found: list[str] = []
    for place in (folder.path, *(os.path.join(folder.path, name) for name in (INBOX, ATTACHMENTS))):
        with suppress(OSError), os.scandir(place) as entries:
            found.extend(
                entry.path
                for entry in entries
                if _TEMPORARY.match(entry.name)
                and entry.is_file(follow_symlinks=False)
                and now - entry.stat(follow_symlinks=False).st_mtime > RECENT
            )
    return found


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
