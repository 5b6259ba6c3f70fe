"""What a rule of resets comes to when all that it leaves out is filled in."""

from typing import NamedTuple

import msgspec

from halo.workspace.settings.sessions import ResetMode, ResetRule

DEFAULT_HOUR = 4


class ResetPolicy(NamedTuple):
    """When a session ends. `idle_minutes` 0: no such limit. `time_zone` empty: the user's.

    `source` is the setting below `general.session` that says it.
    """

    mode: ResetMode
    at_hour: int
    idle_minutes: int
    time_zone: str
    source: str

    @property
    def acts(self) -> bool:
        """Whether it can end a session at all."""
        return self.mode == "daily" or (self.mode == "idle" and self.idle_minutes > 0)


def over(below: ResetRule, above: ResetRule) -> ResetRule:
    """Lay one rule over another, field by field."""
    fields = ((name, getattr(above, name)) for name in ResetRule.__struct_fields__)
    return msgspec.structs.replace(below, **{name: value for name, value in fields if value is not None})


def effective(rule: ResetRule, source: str) -> ResetPolicy:
    """Fill in what a rule leaves out."""
    minutes = rule.idle_minutes or 0
    mode: ResetMode = "idle" if minutes else "never"
    if rule.mode is not None:
        mode = rule.mode
    elif rule.at_hour is not None:
        mode = "daily"
    hour = rule.at_hour if rule.at_hour is not None else DEFAULT_HOUR
    return ResetPolicy(mode, hour, minutes, rule.time_zone or "", source)
