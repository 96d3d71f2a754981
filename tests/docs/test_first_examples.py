"""The first jobs that README.md and the page on writing jobs show give the rows of plain Python, late ones too. Without Spark.

Their code runs as it stands. README.md leaves out the names that `GIVEN` has.
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

from keyfold import Stream
from keyfold.testing import play
from tests.examples import examples
from tests.on_a_grid import many_of, on_grid

HOME = Path(__file__).parents[2]
TIME = pa.timestamp("us", tz="UTC")
CLICK = pa.schema([pa.field("user", pa.string(), nullable=False), pa.field("at", TIME, nullable=False)])
VIEW = CLICK.append(pa.field("page", pa.string()))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEVER = datetime.min.replace(tzinfo=UTC)
END = NOON + timedelta(days=1)
HOUR, GAP, DELAY = timedelta(hours=1), timedelta(minutes=10), timedelta(minutes=5)


def names_of(page, **names):
    """Run the blocks of a page before the one that runs the job, and return what they name."""
    blocks = re.findall(r"```python\n(.*?)```", (HOME / page).read_text(encoding="utf-8"), re.DOTALL)
    exec("".join(one for one in blocks if "keyfold.run(" not in one), names)  # noqa: S102 - our own page
    return names


HOURS = names_of("README.md", pl=pl, CLICKS=Stream("clicks", VIEW, event_time="at"))["CLICKS_PER_HOUR"]
PAGE = names_of("docs/how-to/write-a-job.md")


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


@pytest.mark.parametrize(
    ("job", "expected", "columns"),
    [
        (HOURS, hours, ["user", "window_start", "clicks"]),
        (PAGE["VISITS"], sessions, ["user", "window_start", pl.col("window_end") - GAP, "clicks"]),
        (PAGE["SESSIONS"], sessions, ["user", "start", "end", "clicks"]),
    ],
    ids=["hours", "visits", "sessions"],
)
@examples(150)
@given(RUNS, CUTS)
@example(BEHIND_THE_WATERMARK, [])
def test_the_first_examples_give_the_rows_of_plain_python_in_any_order_and_split(job, expected, columns, runs, cuts):
    told = play(job, [frame(run, VIEW if job is HOURS else CLICK) for run in runs], END, cuts=cuts)
    rows, late = expected(runs)
    assert sorted(told.written[job.name].select(columns).rows()) == sorted(rows)
    assert told.written[job.late_table].select(job.events).item() == len(late)
    assert told.state.is_empty()


def frame(run, schema):
    return pl.DataFrame(run, schema={"user": pl.String, "at": pl.Datetime("us", "UTC")}, orient="row").select(
        pl.col(name) if name in ("user", "at") else pl.lit(None, pl.String).alias(name) for name in schema.names
    )


def test_a_click_behind_the_watermark_is_not_late_while_its_hour_or_its_session_is_open():
    assert hours(BEHIND_THE_WATERMARK) == ([("ann", NOON, 1), ("bob", NOON, 1)], [])
    assert sessions(BEHIND_THE_WATERMARK) == ([("ann", at(30), at(30), 1), ("bob", at(20), at(20), 1)], [])
