"""What is tolerated, and said: a diagnostic names its place like an error but stops nothing."""

from typing import Literal

import msgspec

from halo.files.visible import shown

Severity = Literal["info", "warning", "error"]

# What every build says again, for as long as it is so: text of a layer is missing from a prompt.
SAID_EVERY_TIME = frozenset({"context-truncated"})


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """One remark about a source.

    `code` is stable and documented in `docs/reference/diagnostics.md`; `source` is a tree path such as
    `workspace:.halo/USER.md`; `line` counts from 1, 0 where there is none.
    """

    code: str
    severity: Severity
    message: str
    source: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}: " if self.line else f"{self.source}: " if self.source else ""
        return shown(f"{where}{self.severity}: {self.message} [{self.code}]")
