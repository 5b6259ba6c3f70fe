"""What a session tells others when it is done: reports to a parent, answers to whoever asked. Pure.

The status comes from what happened, never from what the model says of it. Ids are derived from the session
and its turn, so that a report that is sent twice (a process died between two steps) is taken once.
"""

from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.targets import Access
from halo.sessions.history import Conversation
from halo.sessions.standing import REPORT

# Said exactly, and nothing else: no answer, no announcement, nothing to deliver.
REPLY_SKIP = "REPLY_SKIP"
ANNOUNCE_SKIP = "ANNOUNCE_SKIP"

LONGEST = 8_192  # characters of a result; the rest is a call of get_session_output away

_STATUS = {
    "done": "completed",
    "max_tokens": "completed, but the reply was cut short at its limit",
    "refusal": "refused by the model",
    "interrupted": "interrupted: its process ended",
    "stopped": "stopped",
    "gave_way": "broken off for a message",
    "storm": "broken off: the same call again and again",
    "time": "out of time",
    "steps": "out of budget (steps)",
    "tokens": "out of budget (tokens)",
    "cost": "out of budget (cost)",
}


def report_id(session_id: str, turn: int) -> str:
    """Return the id of the report of a session after a turn."""
    return f"{REPORT}{session_id}:{turn}"


def answer_id(session_id: str, turn: int, to: str) -> str:
    """Return the id of the answer of a session to the session `to`, after a turn."""
    return f"answer:{session_id}:{turn}:{to}"


def status_of(conversation: Conversation) -> str:
    """Say in words how the last turn of a session ended."""
    if conversation.standing.stopped:
        return "stopped"
    ended = conversation.ended
    if conversation.open_turn:
        return "running"
    if ended is None:
        return "idle"
    if ended.reason == "error":
        return f"failed: {' '.join(ended.error.split())[:300]}"
    return _STATUS.get(ended.reason, ended.reason)


def final_text(conversation: Conversation) -> str:
    """Return what the model said last in the last turn."""
    return conversation.standing.said.strip()


def answer_text(conversation: Conversation) -> str:
    """Return what the last turn of a session says to those who asked; empty for nothing, or not yet.

    A turn that broke off says that it did: whoever asked need not wait. One that gave way to a message is
    answered with the turn behind it, and who stopped a session wants no answer.
    """
    ended = conversation.ended
    if ended is None or ended.reason in ("gave_way", "stopped") or conversation.standing.stopped:
        return ""
    text = final_text(conversation)
    broken_off = ended.reason in ("error", "interrupted") or (
        not text and ended.reason not in ("done", "silent")
    )
    return f"[No answer: {status_of(conversation)}]" if broken_off else text


def report_of(
    session_id: str,
    conversation: Conversation,
    *,
    at: str,
    transcript: str,
    access: Access,
    title: str = "",
) -> Incoming:
    """Write the report of a session for its parent. `transcript` is a path relative to the workspace."""
    created = conversation.created
    agent = created.target.agent if created is not None else ""
    text, notes = final_text(conversation), []
    # Who stopped it knows; the report waits for the next turn there.
    by_parent = created is not None and conversation.standing.stopped == f"session {created.parent}"
    silent = text == ANNOUNCE_SKIP
    if silent:
        text = ""
    if len(text) > LONGEST:
        notes.append(
            f"the result has {len(text):,} characters; these are the first {LONGEST:,}. "
            f"get_session_output({session_id!r}) returns all of it"
        )
        text = text[:LONGEST]
    if conversation.damaged:
        notes.append(f"its log is damaged: {conversation.damaged[0]}")
    named = f", {title}" if title else ""
    lines = [
        f"[Report of session {session_id}, agent {agent}{named}]",
        f"Status: {status_of(conversation)}",
        f"Result: {text or '(no text)'}",
        *([f"Notes: {'; '.join(notes)}"] if notes else []),
        f"Stats: {stats_of(conversation)}, transcript {transcript}",
    ]
    return Incoming(
        FORMAT,
        report_id(session_id, conversation.turn),
        at,
        "\n".join(lines),
        Sender("report", session=session_id, agent=agent, access=access),
        quiet=silent or by_parent,
    )


def stats_of(conversation: Conversation) -> str:
    """Write the figures of a session on one line."""
    usage = conversation.usage
    parts = [
        f"{conversation.seconds:.1f} s",
        f"{conversation.turn} turn{'' if conversation.turn == 1 else 's'}",
        f"{usage.prompt:,} tokens sent ({usage.read:,} cached)",
        f"{usage.output:,} produced",
    ]
    if conversation.currency:
        parts.append(f"{conversation.cost:.4f} {conversation.currency}")
    return ", ".join(parts)


def answer_of(
    session_id: str, agent: str, text: str, turn: int, *, at: str, to: str, rounds: int, access: Access
) -> Incoming:
    """Write the answer to a message of the session `to`, the `rounds`-th since one of them began."""
    return Incoming(
        FORMAT,
        answer_id(session_id, turn, to),
        at,
        text,
        Sender("agent", session=session_id, agent=agent, access=access),
        rounds=rounds,
    )


def announcement(request: str, first: str, latest: str, other: str) -> str:
    """Ask a session, after an exchange with `other`, for what it wants to tell its own channel."""
    return (
        f"[Your exchange with session {other} is over.]\n"
        f"The request was:\n{request}\n\nYour first answer was:\n{first}\n\n"
        f"The last answer was:\n{latest}\n\n"
        f"Write what the people on your channel should know of it; exactly {ANNOUNCE_SKIP} if nothing."
    )
