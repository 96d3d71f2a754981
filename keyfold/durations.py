"""Read lengths of time from text: `90s`, `30m`, `1.5h`, `1d`."""

import re
from datetime import timedelta

from keyfold.errors import Misconfigured

_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}

LONGEST = timedelta(days=365_000)
"""A thousand years: added to any time, the sum fits into 64 bits of microseconds."""

FORMS = "write a number and s, m, h or d, such as 90s, 30m, 1.5h or 1d"


def parsed_duration(text: str) -> timedelta | None:
    """Return the duration that a text says; None if it has another form.

    Raises:
        ValueError: it is longer than any may be.

    Example:
        >>> parsed_duration("1.5h")
        datetime.timedelta(seconds=5400)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*", text)
    if found is None:
        return None
    try:
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        raise ValueError(f"longer than any may be, which is {LONGEST.days:,} days") from None


def as_duration(where: str, given: timedelta | str) -> timedelta:
    """Return a duration that is given as text or as itself.

    Raises:
        Misconfigured: the text says none, or it is negative.
    """
    try:
        parsed = parsed_duration(given) if isinstance(given, str) else given
    except ValueError as error:
        raise Misconfigured(f"{where} is {given!r}: {error}") from None
    if not isinstance(parsed, timedelta):
        raise Misconfigured(f"{where} is {given!r}: {FORMS}")
    if parsed < timedelta(0):
        raise Misconfigured(f"{where} is {parsed}; it must not be negative")
    return parsed


def duration_text(duration: timedelta) -> str:
    """Format a duration so that it can be parsed: in the largest unit of which it is a whole number.

    Example:
        >>> duration_text(timedelta(minutes=90)), duration_text(timedelta(hours=2))
        ('90m', '2h')
    """
    for unit, name in (("d", "days"), ("h", "hours"), ("m", "minutes")):
        if duration % timedelta(**{name: 1}) == timedelta(0):
            return f"{duration // timedelta(**{name: 1})}{unit}"
    return f"{duration / timedelta(seconds=1):f}".rstrip("0").rstrip(".") + "s"
