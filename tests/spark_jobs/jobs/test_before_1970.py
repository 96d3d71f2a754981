"""Every job of events before 1970: nothing is late for that, and all is as it would be a number of weeks later."""

from datetime import timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.testing import play
from tests.keyfold.state.job_histories import END, HISTORIES, History

WEEKS = timedelta(weeks=3500)
"""Whole weeks, so that hours of the day, days of the week and all windows are the same."""


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_events_before_1970_give_what_the_same_events_give_weeks_later(history: History):
    job, played = history.job(), []
    for ago in (WEEKS, timedelta(0)):
        runs = [part.head(80).with_columns(pl.col(job.event_time) - ago) for part in history.parts()]
        played.append(play(job, runs, end=END - ago))
    old, new = played
    assert new.watermark - old.watermark == WEEKS
    assert old.written[job.name].height > 0
    for table in job.tables:
        rows, expected = (one.written[table.name] for one in played)
        assert_frame_equal(_as_if_later(rows), _without_names(expected), check_row_order=False)


def _as_if_later(rows: pl.DataFrame) -> pl.DataFrame:
    times = [name for name, kind in rows.schema.items() if kind.is_temporal() and name != "failed_at"]
    return _without_names(rows).with_columns(pl.col(times) + WEEKS)


def _without_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without what is made of a time or of all that an event says."""
    return rows.drop("trip_id", "idempotency_key", strict=False)
