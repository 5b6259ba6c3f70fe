"""From the envelope of a message to its session key: scopes of direct messages, links between identities."""

from typing import NamedTuple

from halo.records.channels import channel_name
from halo.sessions.routing.inbound import Inbound
from halo.sessions.routing.key import SessionKey
from halo.workspace.settings.identities import linked_names
from halo.workspace.settings.sessions import DmScope, SessionSettings

DEFAULT_ACCOUNT = "default"


class Address(NamedTuple):
    """The key of a message. `scope` is that of a direct message, else empty; `notes` say what led there."""

    key: SessionKey
    scope: DmScope | None
    notes: tuple[str, ...]


def address(settings: SessionSettings, agent: str, inbound: Inbound) -> Address:
    """Find the key of a message to `agent`.

    Raises `SessionKeyError` where the envelope lacks the id that the key is made of: a message of nobody
    never lands in a session of somebody.
    """
    channel = channel_name(inbound.channel)
    if inbound.type == "direct":
        return _direct(settings, agent, channel, inbound)
    key = SessionKey(
        agent,
        "group" if inbound.type == "group" else "channel",
        channel,
        peer=inbound.group,
        topic=inbound.topic,
        thread=inbound.thread,
    )
    return Address(key, None, (f"a {inbound.type} has a session of its own",))


def _direct(settings: SessionSettings, agent: str, channel: str, inbound: Inbound) -> Address:
    thread, scope = inbound.thread or inbound.topic, settings.dm_scope
    if inbound.event and not inbound.peer:
        return Address(
            SessionKey(agent, thread=thread), None, ("what a program sends to nobody in particular",)
        )
    own = SessionKey(
        agent, "direct", channel, inbound.account or DEFAULT_ACCOUNT, inbound.peer, thread=thread
    )
    said = f"dm_scope is {scope}"
    if scope == "main":
        return Address(SessionKey(agent, thread=thread), scope, (f"{said}: direct messages of all senders",))
    names = linked_names(settings.identity_links, channel, inbound.peer)
    if len(names) == 1:
        key = SessionKey(agent, "direct", peer=names[0], thread=thread, linked=True)
        return Address(
            key, scope, (f"{said}", f"identity_links: this sender is {names[0]!a}, on any channel")
        )
    notes = [said]
    if names:
        several = ", ".join(ascii(name) for name in names)
        notes.append(f"identity_links name this sender {several}: none of them counts")
    match scope:
        case "per-peer":
            key = SessionKey(agent, "direct", peer=inbound.peer, thread=thread)
        case "per-channel-peer":
            key = SessionKey(agent, "direct", channel, peer=inbound.peer, thread=thread)
        case _:
            key = own
    return Address(key, scope, tuple(notes))
