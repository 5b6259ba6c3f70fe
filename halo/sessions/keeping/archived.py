"""Whether a session is put away: somebody did so, or it was a task whose report is long since given."""

from datetime import UTC, datetime, timedelta

from halo.records.headers import Header

ARCHIVED = "archived"  # the name of the setting
MINUTES = 60.0  # after its report a session that an agent started is put away by itself


def is_archived(header: Header, now: datetime, minutes: float = MINUTES) -> bool:
    """Tell whether a session is archived; of a child that has reported, the time says it and nothing else.

    `minutes` is `general.session.delegation.archive_minutes`. What is new in the session takes it out again.
    """
    if header.settings.get(ARCHIVED):
        return True
    if not header.parent or not header.report:
        return False
    try:
        updated = datetime.fromisoformat(header.updated_at)
    except ValueError:
        return False
    if updated.tzinfo is None:  # no such time is written; whoever wrote this one meant UTC
        updated = updated.replace(tzinfo=UTC)
    return now - updated > timedelta(minutes=minutes)
