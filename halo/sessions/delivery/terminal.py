"""The channel `terminal`: what somebody in front of this machine reads."""

from halo.files.visible import visible
from halo.records.outgoing import Outgoing
from halo.sessions.delivery.channels import Opening, Retry


class Terminal:
    """Writes each message on lines of its own, an empty line between two. Nothing in a message acts."""

    text_limit = 0
    drafts = False
    retry = Retry()

    def __init__(self, opening: Opening) -> None:
        opening.only()
        self._write = opening.write
        self._sent: set[str] = set()

    async def send(self, message: Outgoing) -> str:
        """Write a message, once."""
        if message.id not in self._sent:
            lines = [visible(line) for line in message.text.split("\n")]
            lines += [f"[{visible(medium)}]" for medium in message.media]
            self._write(("\n" if self._sent else "") + "\n".join(lines) + "\n")
            self._sent.add(message.id)
        return ""

    async def draft(self, message: Outgoing) -> None:
        """Show nothing: what a terminal has shown stays."""

    async def close(self) -> None:
        """Do nothing."""
