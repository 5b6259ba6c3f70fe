"""Halo's own commands: their words, what stands behind them, who may use them. Pure."""

from typing import Literal, NamedTuple

from halo.records.commands import Word
from halo.records.incoming import Sender
from halo.records.targets import permits
from halo.sessions.thinking import LEVELS

# Whoever may write here; whoever may change something; the owner of the session.
Right = Literal["everyone", "changers", "owner"]

INHERIT = "inherit"


class Spec(NamedTuple):
    """A command. `argument` is shown in `/help`; `words` are what may stand behind it, empty: anything.

    `beside`: it acts at once although a turn runs. `argument` empty: nothing may stand behind it.
    """

    name: Word
    argument: str
    summary: str
    right: Right = "changers"
    words: tuple[str, ...] = ()
    beside: bool = False


COMMANDS: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec("help", "", "the commands that you may use here", "everyone", beside=True),
        Spec("status", "", "the session, its figures and settings", "everyone", beside=True),
        Spec(
            "context",
            "[list|detail]",
            "what fills the window of the model",
            "everyone",
            ("list", "detail"),
            beside=True,
        ),
        Spec("new", "[MODEL] [MESSAGE]", "begin a new session, with another model if one is named"),
        Spec("reset", "[MESSAGE]", "begin a new session"),
        Spec("stop", "", "stop what runs here, and all that it started", beside=True),
        Spec("compact", "[INSTRUCTIONS]", "put a summary in the place of the history"),
        Spec("model", "[NAME|inherit]", "the model of this session"),
        Spec("think", "[off|low|medium|high|inherit]", "how much it thinks first", words=(*LEVELS, INHERIT)),
        Spec(
            "verbose",
            "[on|off|inherit]",
            "whether tools and thoughts are shown",
            words=("on", "off", INHERIT),
        ),
        Spec(
            "send",
            "[on|off|inherit]",
            "whether replies go out to a channel",
            "owner",
            ("on", "off", INHERIT),
        ),
    )
}


def may(sender: Sender, right: Right) -> bool:
    """Tell whether a sender has a right: what one may do travels with the message."""
    if sender.owner or right == "everyone":
        return True
    return right == "changers" and permits(sender.access, "workspace")
