"""Ends a session and begins the next one of its key: the old log says why and on what that was decided.

First the old session writes down which one follows it, then that one is begun, then it takes over what the
user chose. A crash between any two steps is made good by whoever comes next (`finished`): nothing is lost,
and no key ever leads to two sessions.
"""

import datetime as dt
import secrets

from halo.errors import UsageError
from halo.records.session_events import SessionChanged, SessionCreated, SessionRolledOver
from halo.sessions.beginning import Relation, begin
from halo.sessions.choice import Choice, main_session
from halo.sessions.derived import write_derived
from halo.sessions.desk import Desk
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.ids import new_session_id
from halo.sessions.reading import Unread, payload_of
from halo.sessions.routing.carrying import carried_over
from halo.sessions.routing.clock import find_zone
from halo.sessions.routing.finding import is_held
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.policy import reset_policy
from halo.sessions.routing.reset import Reset, Times, decide
from halo.workspace.settings.general import read_general

_MODEL = "model"
_COPIES = frozenset({"fork", "import"})  # reasons of sessions that follow no other


def due(desk: Desk, choice: Choice) -> Reset:
    """Decide by the settings whether a person's message ends the chosen session, as it would reach it now."""
    if choice.folder is None:
        return Reset()
    conversation = choice.folder.read()
    created = conversation.created
    key = created.key if created is not None else ""
    parsed = parse_key(key or "main", agent=choice.target.agent)
    source = created.source if created is not None else None
    channel = parsed.channel or (source.provider if source is not None else "") or choice.origin
    settings = read_general(desk.tree).session
    policy = reset_policy(settings, parsed, channel)
    zone, _ = find_zone(policy.time_zone, desk.zone_name())
    active = conversation.open_turn and is_held(choice.folder)
    times = Times(conversation.created_at, conversation.standing.interacted_at, active)
    now = dt.datetime.fromtimestamp(desk.now_ns() / 1e9, dt.UTC)
    return decide(policy, times, now, zone)


def roll_over(desk: Desk, choice: Choice, reason: str, inputs: dict[str, str], model: str = "") -> Choice:
    """End the chosen session, which nobody runs, and return its successor, begun.

    `model` is one chosen for it. A choice without a session begins one. Raises `BusyError` while a turn runs
    in it, `UsageError` for a session that an agent started.
    """
    if choice.folder is None:
        with choice.open(desk.now_ns) as session:
            if model:
                session.append(SessionChanged(_MODEL, model, "user"), turn=0)
            write_derived(session)
        return choice._replace(folder=session.folder, notices=())
    with choice.folder.open(desk.now_ns) as old:
        created = old.conversation.created
        if created is not None and created.parent:
            raise UsageError(
                f"session {old.folder.id} was started by an agent, for one task: nothing follows it",
                hint=f"begin one of your own: -n -a {created.target.agent}",
            )
        if old.conversation.standing.successor is None:  # else somebody was quicker
            new_id = new_session_id(desk.now_ns(), secrets.token_bytes(6))
            given = {**inputs, **({_MODEL: model} if model else {})}
            old.append(SessionRolledOver(new_id, reason, given), turn=0)
            write_derived(old)
        conversation = old.conversation
    return _begun(desk, choice, conversation)


def finished(desk: Desk, choice: Choice) -> Choice:
    """Return the session to talk in after a crash in the middle of `roll_over`; as a rule it is `choice`."""
    if choice.folder is None:
        return choice
    conversation = choice.folder.read()
    if conversation.standing.successor is not None:
        return _begun(desk, choice, conversation)
    created = conversation.created
    if conversation.turn or created is None or not created.previous or created.reason in _COPIES:
        return choice
    before = SessionFolder(choice.sessions, created.previous)
    if before.exists():
        with choice.folder.open(desk.now_ns) as session:
            _take_over(session, before.read())
    return choice


def _begun(desk: Desk, choice: Choice, old: Conversation) -> Choice:
    """Begin the successor of a session that has ended, unless it has been begun, and let it take over."""
    successor, created = old.standing.successor, old.created
    assert successor is not None  # noqa: S101  # it has ended
    assert choice.folder is not None  # noqa: S101  # it is the one that has ended
    folder = SessionFolder(choice.sessions, successor.to)
    if folder.exists() and folder.read().created is not None:
        session = folder.open(desk.now_ns)
    else:
        session = begin(
            choice.sessions,
            choice.home,
            desk.now_ns,
            created.target.target() if created is not None else choice.target,
            created.origin if created is not None else choice.origin,
            _relation(choice, choice.folder.id, created, successor),
            session_id=successor.to,
        )
    with session:
        _take_over(session, old)
        write_derived(session)
    return choice._replace(folder=session.folder, notices=(), relation=None)


def _relation(
    choice: Choice, old_id: str, created: SessionCreated | None, successor: SessionRolledOver
) -> Relation:
    """Say how the successor is related. A session of an earlier version, without a key, leads to one with."""
    own = main_session(choice.target.agent, choice.origin) or Relation()
    key = (created.key if created is not None else "") or own.key
    source = created.source if created is not None else None
    return Relation(key=key, previous=old_id, reason=successor.reason, source=source)


def _take_over(session: OpenSession, old: Conversation) -> None:
    """Set what was chosen for the old session and was never set, nor taken back, in this one."""
    successor = old.standing.successor
    model = successor.inputs.get(_MODEL, "") if successor is not None else ""
    set_already = _names_set(session.folder)
    for name, value in carried_over(old.standing.settings, model=model).items():
        if name not in set_already:
            session.append(SessionChanged(name, value, "user"), turn=0)


def _names_set(folder: SessionFolder) -> set[str]:
    events = [payload_of(event).data for event in folder.read_events() if not isinstance(event, Unread)]
    return {data.name for data in events if isinstance(data, SessionChanged)}


def spoken(reset: Reset, old_id: str, new_id: str) -> str:
    """Say to the user that a rule has ended the session, and which."""
    rule, since = reset.inputs.get("policy", ""), reset.inputs.get("counted_from", "")
    why = f"{reset.reason} reset, general.session.{rule}; the last message was at {since}"
    return f"a new session begins, {new_id} ({why}); {old_id} is kept"
