"""Token counts of a model call, named alike for every provider."""

import msgspec


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one or more calls. The prompt had `uncached + written + read` of them.

    `uncached`: processed anew; `written`: processed and put into the provider's cache; `read`: taken from
    it; `output`: produced.
    """

    uncached: int = 0
    written: int = 0
    read: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All tokens that were sent."""
        return self.uncached + self.written + self.read

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.uncached + other.uncached,
            self.written + other.written,
            self.read + other.read,
            self.output + other.output,
        )
