"""Jobs on arrival time: the clock goes by when files were admitted, and nothing that comes is ever behind it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest, ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.step import Step
from keyfold.keyed.runner import run_job
from keyfold.runners import Runners
from keyfold.stream import INGESTED_AT, Stream
from tests.keyfold.keyed.toy_jobs import CLICK, START, TIME, windows

CLICKS = Stream(name="clicks", schema=CLICK, event_time="at", event_id=("user", "at"))
ARRIVED_CLICK = CLICK.append(pa.field(INGESTED_AT, TIME))

DRIVER: Any = Runners("local")
"""As much of a session as ingest asks for where it reads files itself."""


def arrivals(state, events, clock):
    """Clicks of a user at each arrival, told once the watermark has passed it."""
    came = events.select("user", window=INGESTED_AT, clicks="clicks")
    merged = pl.concat([state.drop("deadline"), came]).group_by("user", "window").agg(pl.col("clicks").sum())
    merged = merged.with_columns(deadline="window")
    is_over = pl.col("deadline") <= clock.watermark
    return Step(state=merged.filter(~is_over), output=merged.filter(is_over).drop("deadline"))


def by_arrival(**changes):
    settings = {"at": INGESTED_AT, "columns": ARRIVED_CLICK, "final_at": INGESTED_AT, "delay": "0s", "step": arrivals}
    return windows(**{**settings, **changes})


@pytest.fixture
def come(lakehouse):
    """Let clicks of (user, minutes after START) come in a file of their own; gives when they arrived."""

    def come(name, *rows):
        landing = lakehouse.landing("clicks")
        landing.mkdir(parents=True, exist_ok=True)
        lines = [
            f'{{"user": "{user}", "at": "{(START + timedelta(minutes=at)).isoformat()}", "clicks": 1}}\n'
            for user, at in rows
        ]
        (landing / name).write_text("".join(lines))
        before = datetime.now(UTC)
        ingest(lakehouse, CLICKS, runners=DRIVER)
        journal = ingest_journal(lakehouse, "clicks")
        last = journal.last_done()
        plan = journal.plan(last.batch) if last else None
        assert plan is not None
        assert before <= plan.planned_at <= datetime.now(UTC)
        return plan.planned_at

    return come


def test_the_clock_of_a_job_on_arrival_time_is_when_files_were_admitted(without_spark, lakehouse, rows, come):
    first = come("a.json", ("ann", 0), ("bob", 600))
    summary = run_job(lakehouse, by_arrival(), runners=without_spark)
    # With no delay, what has arrived has passed.
    assert summary.watermark is not None
    assert abs(summary.watermark - first) < timedelta(milliseconds=1)
    second = come("b.json", ("ann", -600), ("ann", 1))
    run_job(lakehouse, by_arrival(), runners=without_spark)
    third = come("c.json", ("bob", 5))
    run_job(lakehouse, by_arrival(), runners=without_spark)
    run_job(lakehouse, by_arrival(), FullRefresh(advance_to=third + timedelta(seconds=1)), runners=without_spark)
    assert rows("windows") == [("ann", first, 1), ("ann", second, 2), ("bob", first, 1), ("bob", third, 1)]
    assert rows("late.windows") == []


def test_what_is_late_by_its_own_time_is_not_by_its_arrival(without_spark, lakehouse, rows, come):
    for name, clicks in (("a.json", [("ann", 600)]), ("b.json", [("ann", 0), ("bob", 0)])):
        come(name, *clicks)
        run_job(lakehouse, windows(), runners=without_spark)
        run_job(lakehouse, by_arrival(name="by_arrival"), runners=without_spark)
    assert [user for user, *_ in rows("late.windows")] == ["ann", "bob"]
    assert rows("late.by_arrival") == []


def test_an_event_table_without_arrivals_is_told_of_before_anything_is_made(without_spark, lakehouse, land):
    land(("ann", 0))
    with pytest.raises(KeyfoldError, match=r"goes by ingested_at, a column .*keyfold ingest clicks --rebuild"):
        run_job(lakehouse, by_arrival(), runners=without_spark)
    assert live_generation(lakehouse, "windows") is None
