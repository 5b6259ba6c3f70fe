"""What sessions have used, as the ledger of a workspace keeps it (docs/reference/usage.md)."""

import msgspec

from halo.records.usage import Usage

FORMAT = 1
QUARTER = 900  # seconds: every zone is some quarters of an hour from UTC


class Spending(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """Model calls of one quarter of an hour, of one model and artifact.

    `quarter` counts quarters of an hour from 1970 in UTC. `model` is `provider/id`, `fingerprint` that of the
    artifact of the turn. `failed` are attempts that came to nothing; their tokens are in `usage`, too. `cost`
    is in `currency`; `unpriced` calls have no price.
    """

    quarter: int
    model: str
    fingerprint: str
    currency: str = ""
    calls: int = 0
    failed: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    unpriced: int = 0


class SessionSpending(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session has used while its log had `log_bytes`. `root` is the session at the top of its run."""

    format: int
    id: str
    log_bytes: int
    agent: str = ""
    title: str = ""
    root: str = ""
    spent: tuple[Spending, ...] = ()
    problems: int = 0
