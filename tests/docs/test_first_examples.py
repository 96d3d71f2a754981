"""The first jobs that README.md and the page on writing jobs show give the rows of plain Python, late ones too. Without Spark.

Their code runs as it stands. README.md leaves out the names that `HOURS_ARE_GIVEN` has.
"""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold import Clock, KeyedJob, Step, Stream
from keyfold.testing.playing import play
from tests.examples import examples
from tests.on_a_grid import many_of, on_grid

HOME = Path(__file__).parents[2]
TIME = pa.timestamp("us", tz="UTC")
KEY = [pa.field("user", pa.string(), nullable=False), pa.field("hour", TIME, nullable=False)]
CLICK = pa.schema([KEY[0], ("at", TIME)])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEVER = datetime.min.replace(tzinfo=UTC)
END = NOON + timedelta(days=1)
HOUR, GAP, DELAY = timedelta(hours=1), timedelta(minutes=10), timedelta(minutes=5)
HOURS_ARE_GIVEN = {
    "pl": pl,
    "Clock": Clock,
    "KeyedJob": KeyedJob,
    "Step": Step,
    "HOUR": HOUR,
    "CLICKS": Stream("clicks", CLICK, event_time="at"),
    "SCHEMAS": {
        "derived": {"hour": pl.col("at").dt.truncate("1h")},
        "events": pa.schema([*CLICK, KEY[1]]),
        "state": pa.schema([*KEY, ("clicks", pa.int64()), ("deadline", TIME)]),
        "output": pa.schema([*KEY, ("clicks", pa.int64())]),
        "watermark_delay": DELAY,
        "output_events": pl.col("clicks").sum(),
        "state_events": pl.col("clicks").sum(),
    },
}


def job_of(page, name, module):
    code = re.findall(r"```python\n(.*?)```", (HOME / page).read_text(encoding="utf-8"), re.DOTALL)[0]
    exec(code, module)  # noqa: S102 - our own page
    return module[name]


HOURS = job_of("README.md", "JOB", {**HOURS_ARE_GIVEN})
SESSIONS = job_of("docs/how-to/write-a-job.md", "SESSIONS", {})


def clocks(runs):
    """Yield each run with the watermarks before and after it; after the last, event time advances to the end."""
    before = NEVER
    for run in runs:
        after = max([before, *(at - DELAY for _, at in run)])
        yield run, before, after
        before = after
    yield [], before, END


def hours(runs):
    """Clicks by user and hour, of all clicks that came before the watermark had reached the end of their hour."""
    counted, late = Counter(), []
    for run, before, _ in clocks(runs):
        for user, at in run:
            hour = at.replace(minute=0, second=0, microsecond=0)
            if hour + HOUR <= before:
                late.append((user, at))
            else:
                counted[user, hour] += 1
    return [(*key, clicks) for key, clicks in counted.items()], late


def sessions(runs):
    """Sessions of each user; all of a session's clicks are late if it had ended before they came."""
    kept, ended, late = [], [], []
    for run, before, after in clocks(runs):
        ordered, kept = sorted(kept + run), []
        starts = [n for n, (one, two) in enumerate(pairwise(ordered), 1) if one[0] != two[0] or two[1] - one[1] > GAP]
        for since, until in pairwise([0, *starts, len(ordered)] if ordered else []):
            clicks = ordered[since:until]
            user, last = clicks[-1]
            if last + GAP <= before:
                late += clicks
            elif last + GAP <= after:
                ended.append((user, clicks[0][1], last, len(clicks)))
            else:
                kept += clicks
    return ended, late


def at(minute):
    return NOON + timedelta(minutes=minute)


CLICKS = st.tuples(st.sampled_from(["ann", "bob"]), on_grid(10_800, 300).map(lambda second: at(second / 60)))
RUNS = st.lists(many_of(CLICKS, 12, least=0), min_size=1, max_size=4)
CUTS = st.lists(on_grid(10_800, 600).map(lambda second: at(second / 60)), max_size=3)
# At a watermark of 12:25, bob's hour is open, though he has no click in it yet.
BEHIND_THE_WATERMARK = [[("ann", at(30))], [("bob", at(20))]]


@pytest.mark.parametrize(("job", "expected"), [(HOURS, hours), (SESSIONS, sessions)], ids=["README", "write-a-job"])
@examples(400)
@given(RUNS, CUTS)
@example(BEHIND_THE_WATERMARK, [])
def test_a_first_example_gives_the_rows_of_plain_python_in_any_order_and_split(job, expected, runs, cuts):
    frames = [
        pl.DataFrame(run, schema=pl.Schema({"user": pl.String, "at": pl.Datetime("us", "UTC")}), orient="row")
        for run in runs
    ]
    told = play(job, frames, END, cuts=cuts)
    rows, late = expected(runs)
    assert sorted(told.written[job.name].rows()) == sorted(rows)
    assert sorted(told.written[job.late_table].select("user", "at").rows()) == sorted(late)
    assert told.state.is_empty()


def test_a_click_behind_the_watermark_is_not_late_while_its_hour_or_its_session_is_open():
    assert hours(BEHIND_THE_WATERMARK) == ([("ann", NOON, 1), ("bob", NOON, 1)], [])
    assert sessions(BEHIND_THE_WATERMARK) == ([("ann", at(30), at(30), 1), ("bob", at(20), at(20), 1)], [])
