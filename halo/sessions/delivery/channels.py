"""Channels: where messages go. Each is an entry point of the group `halo.channels`, those of Halo, too.

A workspace only names one; it runs nothing that the user has not installed.
"""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from halo.errors import DeliveryError, MissingKeyError, UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.outgoing import Outgoing
from halo.workspace.connections import connection_of
from halo.workspace.settings.files import expand
from halo.workspace.trust import Grants

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "halo.channels"


class Retry(msgspec.Struct, frozen=True):
    """How often a message is tried, and how long is waited in between, in seconds.

    The wait doubles with each attempt, up to `longest`. A server that asks for a longer one gets it, up to
    `patience`; beyond that the message counts as failed.
    """

    attempts: int = 1
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0


class Channel(Protocol):
    """A way out. `text_limit` bounds the characters of a message, 0 for none; `drafts`: it can show those."""

    text_limit: int
    drafts: bool
    retry: Retry

    async def send(self, message: Outgoing) -> str:
        """Send a message, and return the id that the other side gave it, if any.

        May be called again with the same message, which then arrives once: its `id` is the same. Raises
        `DeliveryError`. It may be cancelled at any time.
        """
        ...

    async def draft(self, message: Outgoing) -> None:
        """Show what the answer is so far, in the place of the last draft of this reply. Raises as `send`."""
        ...

    async def close(self) -> None:
        """Let go of whatever is open."""
        ...


class Opening(msgspec.Struct, frozen=True):
    """What a channel is opened with.

    `params` are those of the settings, variables put in. `halo` is the workspace's `.halo` folder. `write`
    writes to this terminal. `now` is the time in seconds since the epoch.
    """

    channel: str
    account: str
    params: Mapping[str, str]
    halo: str
    write: Callable[[str], object]
    now: Callable[[], float]

    def only(self, *names: str) -> None:
        """Raise `UsageError` for a parameter that is none of `names`."""
        from halo.errors import near_miss_hint

        for name in self.params:
            if name not in names:
                raise UsageError(
                    f"the channel {self.channel} has no parameter {name!r}",
                    hint=near_miss_hint(name, sorted(names)),
                )


# What an entry point leads to.
Open = Callable[[Opening], Channel]


def open_channel(
    tree: Tree,
    grants: Grants,
    environ: Mapping[str, str],
    opening: Opening,
) -> Channel:
    """Open `opening.channel` as the settings say; the params of `opening` are filled in here.

    Raises `UsageError` where the workspace may not reach it so, `MissingKeyError` for an unset variable,
    `UnknownNameError` for a type that no package offers, and what the channel raises.
    """
    connection = connection_of(tree, opening.channel, opening.account)
    if not grants.channel(connection):
        raise UsageError(
            f"general.delivery.{connection.name} is this workspace's, and nobody has allowed it",
            hint="halo trust shows what the workspace asks for",
        )
    params: dict[str, str] = {}
    for name, text in connection.connect.params.items():
        params[name], unset = expand(text, environ)
        if unset:
            raise MissingKeyError(
                f"the channel {opening.channel} needs the environment variable {unset[0]}, which is not set",
                hint=f"general.delivery.{connection.name}.params.{name} names it",
            )
    return _load(connection.connect.type, tuple(sys.path))(msgspec.structs.replace(opening, params=params))


def channel_types() -> tuple[str, ...]:
    """Return the names of all installed channels."""
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@lru_cache(maxsize=16)
def _load(name: str, where: tuple[str, ...]) -> Open:
    """Find and load a channel. `where` is the module search path: another one may hold other packages."""
    del where
    from importlib.metadata import entry_points

    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise UnknownNameError.of("channel", name, list(channel_types()))
    if len({point.value for point in found}) > 1:
        packages = ", ".join(sorted(point.dist.name for point in found if point.dist is not None))
        raise _unusable(name, f"more than one package offers it: {packages}")
    opened = _imported(found[0], name)
    if not callable(opened):
        raise _unusable(name, f"{found[0].value} cannot be called")
    return opened


def _imported(point: "EntryPoint", name: str) -> Open:
    try:
        loaded: Open = point.load()
    except Exception as error:  # whatever foreign code raises is told as its mistake
        raise _unusable(name, f"{point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    return loaded


def _unusable(name: str, why: str) -> DeliveryError:
    return DeliveryError(f"the channel {name} cannot be used: {why}", hint="repair or reinstall its package")
