"""Where a message of a channel comes from, as options of commands."""

from typing import TYPE_CHECKING, Any

import click

from halo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from halo.sessions.routing.inbound import Inbound

_OPTIONS: "tuple[Callable[[Any], Any], ...]" = (
    click.option("--account", default="", metavar="ID", help="The account there that was written to."),
    click.option(
        "--type",
        "chat_type",
        type=click.Choice(["direct", "dm", "group", "channel"]),
        help="What kind of conversation it is in; by default group with --group, else direct.",
    ),
    click.option("--peer", default="", metavar="ID", help="Who wrote."),
    click.option("--group", default="", metavar="ID", help="The group or room."),
    click.option("--thread", default="", metavar="ID", help="The thread in it."),
    click.option(
        "--event",
        type=click.Choice(["heartbeat", "cron", "exec"]),
        help="A program sent it, no person.",
    ),
)


def inbound_options(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """Add the options that `inbound_of` takes as keywords; `--channel` is the command's own."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def inbound_of(
    channel: str, where: dict[str, str | None], *, text: str, authorised: bool, name: str = ""
) -> "Inbound":
    """Make the message that the options describe; `where` are those of `inbound_options`."""
    from halo.sessions.routing.inbound import Inbound

    given = {option: value for option, value in where.items() if value}
    given.setdefault("chat_type", "group" if given.get("group") else "direct")
    return Inbound(channel, name=name, text=text, authorised=authorised, **given)


def refuse_undecodable(given: "Mapping[str, str | None]") -> None:
    """Raise `UsageError` for options whose values are no UTF-8: ids of channels are text."""
    for option, value in given.items():
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise UsageError(f"--{option} is not UTF-8") from None


def refuse_without_channel(where: dict[str, str | None]) -> None:
    """Raise `UsageError` for options that say where a message of no channel came from."""
    given = [option for option, value in where.items() if value]
    if given:
        option = given[0].replace("chat_type", "type")
        raise UsageError(f"--{option} says where a message came from: --channel names the channel")
