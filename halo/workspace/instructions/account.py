"""What a prompt already holds of other tools' texts, and how much more of them may come."""

from collections.abc import Iterable

from halo.files.digests import sha256
from halo.workspace.layers import Layer

# For one prompt, all instruction files and what they import together.
MOST_FILES = 256
MOST_BYTES = 1024 * 1024  # of text: about 290,000 tokens, more than any context holds
MOST_SEARCHED = 256 * 1024  # characters of text that is searched for references
MOST_REFERENCES = 1_000


class Account:
    """Keeps the texts that are in the prompt, by source and by content, and the room that is left."""

    def __init__(self, own: Iterable[Layer]) -> None:
        self._holders: dict[str, str] = {}
        self._files, self._bytes = MOST_FILES, MOST_BYTES
        self._searched, self._references = MOST_SEARCHED, MOST_REFERENCES
        for layer in own:
            self.note(layer)

    def holder(self, layer: Layer) -> str:
        """Return the source that brought this file, or the same text, into the prompt; empty for none."""
        return self._holders.get(layer.source) or self._holders.get(sha256(layer.body.encode()), "")

    def note(self, layer: Layer) -> None:
        """Keep that the prompt has this text. The first to bring it is its holder."""
        self._holders.setdefault(layer.source, layer.source)
        self._holders.setdefault(sha256(layer.body.encode()), layer.source)

    def take(self, layer: Layer) -> bool:
        """Take the room for a text; False, and nothing taken, where there is none."""
        size = len(layer.body.encode())
        if not self._files or size > self._bytes:
            return False
        self._files -= 1
        self._bytes -= size
        return True

    def may_search(self, text: str) -> bool:
        """Take the time for the search of a text for references; False where there is none left."""
        if len(text) > self._searched:
            return False
        self._searched -= len(text)
        return True

    def may_follow(self) -> bool:
        """Take the time for looking one reference up; False where there is none left."""
        self._references -= 1
        return self._references >= 0
