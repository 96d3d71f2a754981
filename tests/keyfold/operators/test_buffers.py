"""Buffers against plain Python: which events leave together, by size and by age in either time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Append, Input, KeyfoldError, Stream, TestHarness, required
from keyfold.operators import buffer
from keyfold.testing import accounted_for, restart
from tests.examples import examples
from tests.keyfold.operators.buffer_oracle import Oracle
from tests.on_a_grid import many_of, on_grid
from tests.shop import MINUTE, NOON

NOW = datetime(2026, 2, 1, tzinfo=UTC)
KEY, NUMBER = required("room", pa.string(), "The room"), pa.field("number", pa.int64())
READINGS = Stream("readings", pa.schema([KEY, required("at", pa.timestamp("us", "UTC"), "When"), NUMBER]), "at")


def job_of(size=3, stream=READINGS, **waits):
    def send(events, _):
        together = events.group_by("room", "batch", maintain_order=True).agg("number")
        return {"batches": together.drop("batch")}

    rows = pa.schema([KEY, pa.field("number", pa.list_(pa.int64()))])
    table = Append(rows, events=pl.col("number").list.len().sum())
    source = Input(stream, delay="5m", columns=stream.schema)
    return buffer("batches", source, size, send, [table], key="room", **waits)


def frame(events):
    return pl.DataFrame(
        events, schema={"room": pl.String, "at": pl.Datetime("us", "UTC"), "number": pl.Int64}, orient="row"
    )


MINUTES = on_grid(40, 5)
WAITS = st.sampled_from([None, 5 * MINUTE, 10 * MINUTE])


@st.composite
def events_in_batches(draw):
    drawn = draw(many_of(st.tuples(st.sampled_from("abc"), MINUTES), 30, 0))
    events = draw(st.permutations([(room, NOON + at * MINUTE, number) for number, (room, at) in enumerate(drawn)]))
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@examples(150)
@given(events_in_batches(), st.lists(on_grid(10, 5), min_size=7, max_size=7), st.integers(1, 5), WAITS, WAITS)
def test_the_same_events_leave_together_as_by_the_oracle_and_none_is_lost(
    batches, minutes, size, wait, processing_wait
):
    job = job_of(size, wait=wait, processing_wait=processing_wait)
    harness, oracle = TestHarness(job), Oracle(size, wait, processing_wait)
    read, now = 0, NOW
    for batch, gone_by in zip([*batches, []], minutes, strict=False):
        now += gone_by * MINUTE
        found = harness.batch(frame(batch), now).tables.get("batches")
        expected = oracle.batch(batch, harness.watermark, now)
        assert (
            sorted((room, tuple(numbers)) for room, numbers in (found.rows() if found is not None else [])) == expected
        )
        restart(harness)
        read += len(batch)
        assert accounted_for(job, harness) == read
        assert harness.state.group_by("room").len().filter(pl.col("len") >= size).is_empty()


@pytest.mark.parametrize("wait", ["wait", "processing_wait"])
def test_the_rest_leaves_when_its_oldest_has_waited_and_not_a_microsecond_before(wait):
    waits: Any = {wait: "10m"}
    for short, expected in ((timedelta(microseconds=1), 0), (timedelta(0), 1)):
        harness, until = TestHarness(job_of(**waits)), 10 * MINUTE - short
        harness.batch(frame([("a", NOON, 1), ("a", NOON + MINUTE, 2)]), NOW)
        harness.batch(None, NOW + until, advance_to=NOON + until)
        assert harness.written["batches"].height == expected
        assert harness.state.height == (0 if expected else 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 0}, "size is 0; it must be 1 or more"),
        ({"wait": "soon"}, "job batches: wait is 'soon': write a number"),
        ({"processing_wait": -MINUTE}, "job batches: processing_wait is .* must not be negative"),
        (
            {"stream": Stream("odd", READINGS.schema.append(pa.field("batch", pa.int64())), "at")},
            "odd has batch, which",
        ),
    ],
)
def test_what_cannot_be_buffered_is_refused(wrong, said):
    with pytest.raises(KeyfoldError, match=said):
        job_of(**wrong)
