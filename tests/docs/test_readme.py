"""The job in README.md runs as it stands, once its names are given. Without Spark."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Clock, Step
from keyfold.stream import Stream

README = Path(__file__).parents[2] / "README.md"
TIME = pa.timestamp("us", tz="UTC")
KEY = [pa.field("user", pa.string(), nullable=False), pa.field("hour", TIME, nullable=False)]
CLICK = pa.schema([KEY[0], ("at", TIME)])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_job_counts_the_clicks_of_each_user_and_hour():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    module = {
        "pl": pl,
        "Clock": Clock,
        "KeyedJob": KeyedJob,
        "Step": Step,
        "HOUR": timedelta(hours=1),
        "CLICKS": Stream("clicks", CLICK, event_time="at"),
        "SCHEMAS": {
            "derived": {"hour": pl.col("at").dt.truncate("1h")},
            "events": pa.schema([*CLICK, KEY[1]]),
            "state": pa.schema([*KEY, ("clicks", pa.int64()), ("deadline", TIME)]),
            "output": pa.schema([*KEY, ("clicks", pa.int64())]),
            "watermark_delay": timedelta(0),
            "output_events": pl.col("clicks").sum(),
            "state_events": pl.col("clicks").sum(),
        },
    }
    exec(code, module)  # noqa: S102 - our own page
    harness = TestHarness(module["JOB"])
    minutes = {"ann": [0, 59, 61], "bob": [5]}
    rows = [(user, NOON + timedelta(minutes=one), NOON) for user, ones in minutes.items() for one in ones]
    clicks = pl.DataFrame(rows, schema=["user", "at", "hour"], orient="row")
    harness.batch(clicks.with_columns(hour=pl.col("at").dt.truncate("1h")))
    assert sorted(harness.written["clicks_per_hour"].rows()) == [("ann", NOON, 2), ("bob", NOON, 1)]
    harness.assert_nothing_lost()
