"""A channel, opened, and the plan by which answers go there."""

from collections.abc import Mapping
from typing import NamedTuple

from halo.errors import DeliveryError, HaloError
from halo.files.tree import Tree
from halo.records.outgoing import Outgoing
from halo.sessions.delivery.channels import Channel, Opening, Retry, open_channel
from halo.sessions.delivery.plan import Plan, plan_for
from halo.workspace.settings.general import read_general
from halo.workspace.trust import Grants


class Ready(NamedTuple):
    """What a delivery needs; whoever gets it closes the channel."""

    channel: Channel
    plan: Plan


def make_ready(
    tree: Tree, grants: Grants, environ: Mapping[str, str], opening: Opening, agent: str = ""
) -> Ready:
    """Open `opening.channel` as the settings say, for answers of `agent`. Raises as `open_channel` does."""
    return _ready(tree, open_channel(tree, grants, environ, opening), opening, agent)


def make_unready(tree: Tree, why: HaloError, opening: Opening, agent: str = "") -> Ready:
    """Stand in for a channel that cannot be opened: an answer is cut, and no part is sent, but kept."""
    return _ready(tree, _Unopened(why.on_one_line), opening, agent)


def _ready(tree: Tree, channel: Channel, opening: Opening, agent: str) -> Ready:
    plan = plan_for(
        read_general(tree).delivery,
        opening.channel,
        opening.account,
        agent,
        text_limit=channel.text_limit,
        drafts=channel.drafts,
    )
    return Ready(channel, plan)


class _Unopened:
    text_limit, drafts, retry = 0, False, Retry()

    def __init__(self, why: str) -> None:
        self._why = why

    async def send(self, message: Outgoing) -> str:
        del message
        raise DeliveryError(self._why)

    async def draft(self, message: Outgoing) -> None:
        await self.send(message)

    async def close(self) -> None:
        """Nothing is open."""
