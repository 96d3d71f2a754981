"""What is private of a stream: which columns of a table show it, and errors that quote no value."""

from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest

from keyfold.columns import column
from keyfold.errors import KeyfoldError
from keyfold.privacy import MASK, describe_error, errors_without_values, masked, private_columns
from spark_jobs.streams import METRICS, SALES

NAME = "Ada Lovelace"


def test_a_table_shows_what_is_private_where_a_column_is_made_of_it_or_does_not_say_of_what():
    schema = pa.schema(
        [
            column("product", pa.string(), "The item", lineage="item"),
            column("buyer", pa.string(), "Who bought it", lineage="item customer"),
            column("said_nothing", pa.string(), "Something"),
            pa.field("undeclared", pa.string()),
            pa.field("customer", pa.string()),
            pa.field("item", pa.string()),
        ]
    )
    assert private_columns([SALES], schema) == {"buyer", "said_nothing", "undeclared", "customer"}


def test_of_a_stream_with_nothing_private_nothing_is():
    schema = pa.schema([pa.field("undeclared", pa.string())])
    assert private_columns([METRICS], schema) == frozenset()
    assert private_columns([replace(SALES, private=())], schema) == frozenset()


def test_the_shipped_stream_of_sales_keeps_customers_private_and_no_table_made_of_it_shows_them():
    assert SALES.private == ("customer",)
    assert private_columns([SALES], SALES.schema) == {"customer"}


def test_a_masked_column_tells_not_even_whether_a_value_is_there_or_two_are_the_same():
    frame = pl.DataFrame({"customer": [NAME, NAME, None, "Bob"], "paid": [1.0, 2.0, 3.0, None]})
    shown = masked(frame, {"customer", "not there"})
    assert shown["customer"].to_list() == [MASK] * 4
    assert shown["paid"].to_list() == [1.0, 2.0, 3.0, None]


def fail_on(value: str) -> None:
    pl.Series("customer", [value]).cast(pl.Int64)


def test_an_error_that_may_quote_a_private_value_tells_its_type_and_place_alone():
    with pytest.raises(KeyfoldError) as caught, errors_without_values("job sums", {"customer"}):
        fail_on(NAME)
    told = str(caught.value)
    assert told.startswith("job sums: InvalidOperationError at ")
    assert "test_privacy.py" in told
    assert "in fail_on" in told
    assert "it may quote values of customer" in told
    assert NAME not in told
    # A traceback, in a log or in Dagster's pages, tells causes too, unless they are suppressed.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_where_nothing_is_private_an_error_is_as_it_was():
    with pytest.raises(pl.exceptions.InvalidOperationError, match=NAME), errors_without_values("job sums", ()):
        fail_on(NAME)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyfoldError("put it back")])
def test_errors_of_disks_and_those_with_a_remedy_pass(error):
    with pytest.raises(type(error)) as caught, errors_without_values("job sums", {"customer"}):
        raise error
    assert caught.value is error


def test_an_error_without_a_place_is_described_too():
    assert describe_error(ValueError(NAME), {"customer"}).startswith("ValueError at ")
    assert describe_error(ValueError(NAME), ()) == f"ValueError: {NAME}"


def test_a_private_column_must_be_a_column_of_its_stream():
    with pytest.raises(KeyfoldError, match="private names nobody"):
        replace(SALES, private=("nobody",))
