"""How a channel is reached, and whether the workspace or the machine says so.

A workspace may come from a stranger: an address of its own, and the variables that it would send there, need
the user's trust (`halo.workspace.trust`).
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from halo.files.canonical import canonical_json
from halo.files.tree import Tree
from halo.records.channels import channel_name
from halo.workspace.settings.delivery import Connect, DeliverySettings, account_of, connects
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.settings.general import read_general, read_general_of


class Connection(NamedTuple):
    """A connection; `name` is the setting's below `general.delivery`, empty where nothing is said."""

    name: str
    connect: Connect
    scope: Literal["workspace", "machine"]


def connection_of(tree: Tree, channel: str, account: str = "") -> Connection:
    """Return how an account of a channel is reached: as is said of it, else as is said of the channel.

    Where nothing is said, the channel's name is its type. Raises `LayerError` for broken settings.
    """
    merged = _said(read_general(tree).delivery, channel, account)
    if merged is None:
        return Connection("", Connect(channel_name(channel)), "machine")
    name, connect = merged
    own = _said(read_general_of(tree, WORKSPACE_SETTINGS).delivery, channel, account)
    scope: Literal["workspace", "machine"] = "workspace" if own == merged else "machine"
    return Connection(name, _typed(connect, channel), scope)


def connection_demands(settings: DeliverySettings) -> Iterator[tuple[str, str]]:
    """Yield setting and definition of every connection that leads out of the workspace."""
    for path, connect in connects(settings):
        typed = _typed(connect, path[1])
        if leads_out(typed):
            yield ".".join(path), definition_of(typed)


def definition_of(connect: Connect) -> str:
    """Write a connection in the one way in which it is compared."""
    return canonical_json(connect).decode()


def leads_out(connect: Connect) -> bool:
    """Tell whether a connection reaches more than this terminal and the workspace's own outbox."""
    return connect.type != "terminal" and not (connect.type == "outbox" and not connect.params)


def _said(settings: DeliverySettings, channel: str, account: str) -> tuple[str, Connect] | None:
    wanted = channel_name(channel)
    name = next((said for said in settings.channels if channel_name(said) == wanted), None)
    if name is None:
        return None
    found = settings.channels[name]
    own = account_of(found, account)
    if own is not None and own.connect is not None:
        said = next(said for said, value in found.accounts.items() if value is own)
        return f"channels.{name}.accounts.{said}.connect", own.connect
    return (f"channels.{name}.connect", found.connect) if found.connect is not None else None


def _typed(connect: Connect, channel: str) -> Connect:
    return connect if connect.type else Connect(channel_name(channel), connect.params)
