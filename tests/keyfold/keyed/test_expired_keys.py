"""A key that expires and gets an event in one batch gives the same rows as in two: the engine closes it first."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import (
    DEADLINE,
    PROCESSING_DEADLINE,
    STEP_DECIDES,
    Append,
    Input,
    KeyedJob,
    State,
    Step,
    Stream,
    TestHarness,
    Upsert,
)
from tests.examples import examples
from tests.shop import MINUTE, NOON

TIME = pl.Datetime("us", "UTC")
SEEN = {"user": pl.String, "at": TIME}
CLICKS = Stream(
    "clicks", pa.schema([pa.field("user", pa.string(), nullable=False), ("at", pa.timestamp("us", "UTC"))]), "at"
)


def visits(timer):
    """One row per visit, written after ten minutes without a click; the step knows nothing of gaps."""

    def step(state, events, clock):
        now = clock.watermark if timer == DEADLINE else clock.processing_time
        came = events.group_by("user").agg(pl.col("at").max(), clicks=pl.len().cast(pl.Int64))
        known = (
            pl.concat([state.select(came.columns), came])
            .group_by("user")
            .agg(pl.col("at").max(), pl.col("clicks").sum())
        )
        since = pl.col("at") if timer == DEADLINE else pl.lit(clock.processing_time, TIME)
        timed = known.join(state.select("user", "clicks", before=timer), on=["user", "clicks"], how="left")
        timed = timed.with_columns(pl.coalesce("before", since + 10 * MINUTE).alias(timer)).drop("before")
        is_over = pl.col(timer) <= now
        rows = timed.filter(is_over).select("user", "at", "clicks")
        return Step(state=timed.filter(~is_over).select(state.columns), output=rows, side={"last": rows.drop("clicks")})

    columns, of_events = {**SEEN, "clicks": pl.Int64}, pl.col("clicks").sum()
    return KeyedJob(
        "visits",
        Input(CLICKS, columns=("user", "at"), final_at=STEP_DECIDES),
        "user",
        State({**columns, timer: TIME}, events=of_events),
        step,
        [Append(columns, events=of_events), Upsert(SEEN, "user", name="last")],
    )


def clicks(rows, since=0):
    found = [(user, NOON + (since + at) * MINUTE) for user, at in rows]
    return pl.DataFrame(found, schema=SEEN, orient="row")


FIRST = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=6)
AFTER = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=6)


@pytest.mark.parametrize("timer", [DEADLINE, PROCESSING_DEADLINE])
@examples(60)
@given(first=FIRST, after=AFTER)
def test_a_key_that_expires_and_gets_an_event_gives_the_rows_of_two_batches(timer, first, after):
    together, apart = TestHarness(visits(timer)), TestHarness(visits(timer))
    for harness in (together, apart):
        harness.batch(clicks(first), NOON)
    later, of_later = NOON + 20 * MINUTE, clicks(after, since=20)
    apart.batch(None, later, advance_to=later - MINUTE)
    for harness in (together, apart):
        harness.batch(of_later, later)
        harness.batch(None, later + 30 * MINUTE, advance_to=later + 30 * MINUTE)
        harness.assert_nothing_lost()
    for table in ("visits", "last"):
        one, two = (harness.written[table].sort(pl.all()) for harness in (together, apart))
        assert one.equals(two)
    expected = {}
    for user, at in first:
        expected.setdefault((user, 0), []).append(at)
    for user, at in after:
        expected.setdefault((user, 20), []).append(at)
    rows = sorted((user, NOON + (since + max(at)) * MINUTE, len(at)) for (user, since), at in expected.items())
    assert sorted(together.written["visits"].rows()) == rows
