"""A channel, opened, and the plan by which answers go there."""

from collections.abc import Mapping
from typing import NamedTuple

from halo.files.tree import Tree
from halo.sessions.delivery.channels import Channel, Opening, open_channel
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
    channel = open_channel(tree, grants, environ, opening)
    plan = plan_for(
        read_general(tree).delivery,
        opening.channel,
        opening.account,
        agent,
        text_limit=channel.text_limit,
        drafts=channel.drafts,
    )
    return Ready(channel, plan)
