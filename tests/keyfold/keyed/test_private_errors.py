"""Errors of a job quote its rows, unless they may be private: then they name the type and the line of code."""

import re
import traceback

import polars as pl
import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.rows.exact_sums import summed
from keyfold.stream import TIMESTAMP, Stream
from tests.keyfold.keyed.toy_jobs import windows
from tests.shop import CLICK

NAME = "Quetzalcoatlus"


def raise_in_a_step(state, events, clock):
    raise ValueError(f"no idea what to do with {events['user'][0]}")


def combine_numbers(events):
    return events.with_columns(pl.col("user").cast(pl.Int64))


FAULTS = {
    "the step raises": {"step": raise_in_a_step},
    "rows cannot be combined": {"combine": combine_numbers},
    "a derived column cannot be made": {"columns": pa.schema([*CLICK, ("number", pa.int64())])},
}


@pytest.fixture(params=FAULTS.values(), ids=list(FAULTS))
def fault(request):
    return request.param


@pytest.fixture
def failure(lake, fault):
    """Run a job with a fault over a click of somebody, whose name is private or not; gives its error."""

    def failure(*private):
        schema = pa.schema([pa.field("user", pa.string()), ("at", TIMESTAMP), ("clicks", pa.int64())])
        stream = Stream("clicks", schema, event_time="at", private=private)
        stream = stream.derive(number=pl.col("user").cast(pl.Int64)) if "columns" in fault else stream
        lake.click((NAME, 0))
        with pytest.raises(KeyfoldError) as caught:
            lake.run(windows(stream=stream, **fault))
        return caught.value

    return failure


def test_of_a_private_column_no_error_quotes_a_value_nor_do_its_causes_and_its_place_is_told(failure):
    error = failure("user")
    assert NAME not in "".join(traceback.format_exception(error))
    assert "its message is hidden: it may quote values of" in str(error)
    assert "user" in str(error)
    assert re.search(r"(ValueError|InvalidOperationError) at \w+\.py:\d+ in \w+", str(error))


def test_of_a_column_that_is_not_private_the_error_says_what_it_said(failure):
    assert NAME in str(failure())


def test_that_another_column_is_private_hides_what_an_error_says_and_not_the_key(failure, fault):
    told = str(failure("clicks"))
    assert "it may quote values of" in told
    if "step" in fault:
        assert f"a key of it {{'user': '{NAME}'}}" in told


def total_too_large(state, events, clock):
    summed(events.with_columns(clicks=pl.lit(2**62)).select(pl.all().repeat_by(2).explode()), ["user"], ["clicks"])


@pytest.mark.parametrize("fault", [{"step": total_too_large}], ids=["a total is too large"])
def test_a_refused_total_of_a_private_key_is_told_with_its_remedy_and_without_values(failure):
    error = failure("user")
    assert NAME not in "".join(traceback.format_exception(error))
    assert "job windows" in str(error)
    assert "a total of clicks does not fit into Int64" in str(error)
    assert "--rebuild`), and start a new generation with --full-refresh" in str(error)
