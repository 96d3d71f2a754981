"""Moments that people write."""

from datetime import UTC, datetime

from spark_jobs.errors import KeyfoldError


def parse_moment(name: str, text: str | None) -> datetime | None:
    """An ISO 8601 time that was given for `name`, UTC where it has no offset; None where nothing was given.

    Raises:
        KeyfoldError: it is no ISO 8601 time.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise KeyfoldError(f"{name} is {text!r}; give an ISO 8601 time, such as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
