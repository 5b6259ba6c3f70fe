"""`general.session.identity_links`: who is the same person on several channels."""

from collections.abc import Mapping, Sequence

from halo.records.channels import channel_name


def linked_names(links: Mapping[str, Sequence[str]], channel: str, peer: str) -> list[str]:
    """Return the names that `links` give to `peer` of `channel`.

    Ids are compared as they are, with their case. An entry without a channel is nobody's.
    """
    return [name for name, entries in links.items() if (channel, peer) in map(split_link, entries)]


def split_link(entry: str) -> tuple[str, str]:
    """Take `telegram:123` apart; both are empty where the entry names no channel, or nobody."""
    channel, colon, peer = entry.partition(":")
    name = channel_name(channel)
    return (name, peer) if name and colon and peer.strip() else ("", "")
