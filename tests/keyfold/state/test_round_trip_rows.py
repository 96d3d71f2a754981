"""Whatever state a job comes to, its rows can be written in any form, checked, and read as the same state again."""

from datetime import timedelta
from decimal import Decimal
from io import BytesIO
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness, as_read
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.state.making.mapping import StateMapping, as_state, check_rows, private_in_state
from keyfold.state.making.sources import open_source
from keyfold.state.rows.lines import json_lines
from keyfold.testing import combined
from spark_jobs.jobs.registry import JOBS
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.job_histories import HISTORIES, PARTS, START


def with_derived(job, events):
    """Events as the engine reads them: with the columns that the job derives."""
    kinds = polars_schema(job.columns)
    events = as_read(next(iter(job.inputs.values())), events)
    return combined(job, events.select(pl.col(name).cast(kind) for name, kind in kinds.items()), 1)


def read_again(job, state, form):
    """The state as a source of that form gives it."""
    if form == "frame":
        return state.lazy()
    text = "".join(f"{line}\n" for line in json_lines(state))
    return pl.read_ndjson(BytesIO(text.encode()), infer_schema_length=None).lazy()


def assert_is_state(job, state):
    """See that rows of state pass for such, in every form, and are the same then."""
    for form in ("frame", "json lines") if state.height else ("frame",):
        source = read_again(job, state, form)
        checked = check_rows(job, source, StateMapping())
        assert (checked.rows, checked.keys) == (state.height, state.select(job.key).n_unique() if state.height else 0)
        assert checked.events == (state.select(job.state.events).item() or 0)
        assert_frame_equal(
            as_state(job, source, StateMapping()).collect(), state.select(job.state.schema.names), check_exact=True
        )


@examples(60)
@given(st.sampled_from(HISTORIES), st.integers(0, 1000), st.integers(1, PARTS), st.integers(0, 600))
def test_any_state_that_a_shipped_job_comes_to_can_be_read_and_seeded(history, seed, parts, minutes):
    job = history.job()
    harness = TestHarness(job)
    for part in history.parts(seed)[:parts]:
        harness.batch(with_derived(job, part), START)
    assert_is_state(job, harness.state)
    harness.batch(None, START, advance_to=START + timedelta(minutes=minutes))
    assert_is_state(job, harness.state)


RIDES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 600), st.sampled_from(["pickup", "enroute", "enroute", "dropoff"])),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("close", ["fast", "complete"])
@examples(80)
@given(RIDES, st.lists(st.integers(0, 30), max_size=4))
def test_a_ride_whose_id_comes_back_still_has_one_row_for_what_has_passed(close, points, cuts):
    job = build_job(JOBS["ride_summaries"], {"close": close, "closed_for": "30m", "timeout": "20m"})
    events = pl.DataFrame(
        {
            "ride_id": [ride for ride, _, _ in points],
            "timestamp": [START + timedelta(minutes=minute) for _, minute, _ in points],
            "ride_status": [status for _, _, status in points],
        }
    ).with_columns(point_idx=pl.int_range(pl.len(), dtype=pl.Int32), latitude=40.7, longitude=-74.0, meter_reading=1.0)
    harness = TestHarness(job)
    bounds = [0, *sorted(cuts), len(points)]
    for since, until in pairwise(bounds):
        harness.batch(events[since:until].select(job.columns.names))
        assert_is_state(job, harness.state)


def test_a_column_that_is_empty_in_the_first_ten_thousand_lines_is_read(lakehouse, tmp_path):
    job = windows()
    lines = ['{"user": "ann", "clicks": 1, "deadline": null}\n'] * 10_001
    lines.append('{"user": "bob", "clicks": 2, "deadline": "2026-01-01T00:10:00Z"}\n')
    path = tmp_path / "state.jsonl"
    path.write_text("".join(lines))
    assert check_rows(job, open_source(lakehouse, str(path)), StateMapping()).timers == {"deadline": 1}


def test_bytes_and_decimals_are_read_as_they_were_written(lakehouse, tmp_path):
    state = pa.schema([("user", pa.string()), ("sketch", pa.binary()), ("sums", pa.list_(pa.decimal128(38, 9)))])
    job = windows(state=state, state_events=pl.lit(0))
    rows = pl.DataFrame(
        {"user": ["ann", "bob"], "sketch": [b"\x00\xff", None], "sums": [[Decimal("1.5"), None], []]},
        schema=polars_schema(state),
    )
    path = tmp_path / "state.jsonl"
    path.write_text("".join(f"{line}\n" for line in json_lines(rows)))
    source = open_source(lakehouse, str(path))
    assert check_rows(job, source, StateMapping()).rows == 2
    assert_frame_equal(as_state(job, source, StateMapping()).collect(), rows)


WHOLE = st.integers(-(2**63), 2**63 - 1)


@examples(60)
@example(2**47, Decimal("0.01"), False)
@example(2**52 + 1, Decimal("0.50"), True)
@given(WHOLE, st.sampled_from([Decimal("0"), Decimal("0.50"), Decimal("0.01")]), st.booleans())
def test_numbers_become_integers_of_state_exactly_or_are_refused(number, rest, is_list):
    column = ("counts", pa.list_(pa.int64())) if is_list else ("count", pa.int64())
    job = windows(state=pa.schema([("user", pa.string()), column]), state_events=pl.lit(0))
    given = pl.Series(column[0], [Decimal(number) + rest], dtype=pl.Decimal(38, 2))
    for values in (given, given.cast(pl.Float64)):
        # A float says a whole number of its own up to 2^53 only; and a large one has no hundredths, whatever it was made of.
        value = values.item()
        is_exact = rest == 0 if isinstance(value, Decimal) else value.is_integer() and abs(value) < 2**53
        source = pl.DataFrame([pl.Series("user", ["ann"]), values.implode() if is_list else values]).lazy()
        found = as_state(job, source, StateMapping()).collect()[column[0]].item()
        assert (found.to_list() if isinstance(found, pl.Series) else found) == (
            None if not is_exact else [int(value)] if is_list else int(value)
        )
        if not is_exact:
            with pytest.raises(KeyfoldError, match=f"{column[0]} is no"):
                check_rows(job, source, StateMapping())


def test_private_values_are_in_no_error_and_no_sample(lakehouse):
    job = build_job(JOBS["event_index"], {"stream": "sales", "key": "item"})
    source = pl.DataFrame({"item": ["tea"], "customer": ["ann"], "next_index": ["many"]}).lazy()
    assert private_in_state(job) >= {"customer"}
    assert private_in_state(job).isdisjoint({"item", "time", "deadline"})
    with pytest.raises(KeyfoldError, match=r"next_index is no Int64 in 1 row \(row 1: \(private\)\)"):
        check_rows(job, source, StateMapping())
