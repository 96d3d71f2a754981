"""What tests of spans share: the price that was wrong, the edges of spans, and what is in them."""

from datetime import timedelta

from hypothesis import strategies as st

from keyfold.journal.audit import Author

WHY = Author("ann", "the prices were wrong")
MOMENT = timedelta(microseconds=1)

EDGES = st.one_of(st.none(), st.builds(lambda at, off: (at, off * MOMENT), st.integers(0, 6), st.integers(-1, 1)))
"""Where a span begins or ends: at the edge of a window of ten, a microsecond before or after it, or nowhere."""


def wrong(clicks):
    return clicks * 2


def right(clicks):
    return clicks * 2 + 1


def stored(lake, job):
    """The rows of all tables, by name."""
    return {table.name: lake.rows(table.name) for table in job.tables}


def in_span(time, since, until):
    return (since is None or since <= time) and (until is None or time < until)
