"""Bounds of what a turn and a run may use."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be used; None: no bound.

    `cost` is in the currency of the model's price list. A model without one costs nothing that could be
    counted, so a bound in money stops it before its first call.
    """

    steps: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Model calls.")] = None
    tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Tokens, sent and produced, cached ones too.")
    ] = None
    cost: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Money, in the currency of the price list.")
    ] = None
    seconds: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Wall time.")] = None


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The bounds of one turn, and of a run: a root session with all that it starts."""

    turn: Annotated[Budget, Meta(description="What one turn may use.")] = Budget(steps=25)
    run: Annotated[Budget, Meta(description="What a session may use in all.")] = Budget()
