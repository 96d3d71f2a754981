"""A column says what it means once, and everybody reads it from there; a job whose columns have changed is refused."""

from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from keyfold.columns import column, describe, lineage_of, passed_on, unit_of
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.tables import Append
from keyfold.schemas import declared_schema
from tests.keyfold.keyed.toy_jobs import NOTED, TOTAL, totals, windows, with_note
from tests.shop import CLICK


@pytest.mark.parametrize(
    ("meaning", "unit", "told"),
    [
        ("Speed", "km/h", "Speed, km/h"),
        ("Mean; NULL where none is known; never negative", "°F", "Mean, °F; NULL where none is known; never negative"),
        ("The ride; one of many", "", "The ride; one of many"),
    ],
)
def test_the_unit_is_told_after_the_first_clause(meaning, unit, told):
    declared = column("c", pa.float64(), meaning, unit=unit)
    assert describe(declared) == told
    assert unit_of(declared) == unit


def test_a_declared_column_is_the_field_that_it_says_whatever_is_told_of_it():
    declared = column("c", pa.int32(), "A count", unit="rows", lineage=("a", "b, with a comma"), nullable=False)
    assert declared == pa.field("c", pa.int32(), nullable=False)
    assert pa.schema([declared]) == pa.schema([pa.field("c", pa.int32(), nullable=False)])
    assert lineage_of(declared) == ("a", "b, with a comma")


def test_columns_in_a_list_may_be_pairs_of_a_name_and_a_type_of_arrow_or_polars():
    kinds = {"a": pl.Int64, "b": pa.string()}
    assert declared_schema("t", cast(Any, [*kinds.items()])) == declared_schema("t", kinds)
    with pytest.raises(KeyfoldError, match="t: 'a' is no column; give column"):
        declared_schema("t", cast(Any, ["a"]))


def test_a_field_as_such_says_nothing():
    field = pa.field("c", pa.int32(), metadata={"comment": "of another program"})
    assert (describe(field), unit_of(field), lineage_of(field)) == ("", "", ())


def test_columns_that_are_passed_on_keep_their_words_and_are_made_of_themselves():
    stream = pa.schema([column("speed", pa.float64(), "Speed", unit="km/h"), pa.field("bare", pa.int8())])
    passed = passed_on(stream)
    assert [lineage_of(field) for field in passed] == [("speed",), ("bare",)]
    assert [describe(field) for field in passed] == ["Speed, km/h", ""]
    assert pa.schema(passed) == stream


def test_a_column_without_a_meaning_is_refused():
    with pytest.raises(KeyfoldError, match="column fare: it needs a description"):
        column("fare", pa.float64(), " ")


CHANGES = {
    "table totals: columns": lambda: totals(output=NOTED, step=with_note(totals().step)),
    "table changes: columns": lambda: totals(more=(Append(NOTED, name="changes"),)),
    "input clicks: columns": lambda: totals(columns=CLICK.append(pa.field("place", pa.string()))),
    "columns of state": lambda: totals(state=NOTED),
    "table totals: mode": lambda: totals(upsert_by=()),
}


@pytest.mark.parametrize("setting", CHANGES)
def test_a_changed_column_is_refused_with_the_remedy_and_the_tables_are_as_they_were(lake, lakehouse, setting):
    lake.click(("ann", 0), ("bob", 1))
    lake.run(totals())
    lake.click(("ann", 2))
    with pytest.raises(KeyfoldError, match=rf"created with: (.*; )?{setting}: .* with --full-refresh"):
        lake.run(CHANGES[setting]())
    assert sorted(pl.read_delta(str(lakehouse.table("totals"))).rows()) == [("ann", 1), ("bob", 1)]
    assert lake.run(totals()).counts.events == 1


def spoken(schema, words):
    """The schema, with so much said of each column."""
    return pa.schema(
        [column(one.name, one.type, f"{words} {one.name}", unit="clicks", nullable=one.nullable) for one in schema]
    )


def test_words_about_columns_may_change_while_a_generation_lives(lake, lakehouse):
    """Also those of an upsert table, whose rows are replaced, and of what waits in state."""
    lake.click(("ann", 0), ("bob", 1))
    before = totals(output=spoken(TOTAL, "once"), state=spoken(TOTAL, "once"), columns=spoken(CLICK, "once"))
    lake.run(before)
    lake.click(("ann", 2))
    after = totals(output=spoken(TOTAL, "now"), state=spoken(TOTAL, "now"), columns=spoken(CLICK, "now"))
    assert lake.run(after).counts.events == 1
    table = DeltaTable(str(lakehouse.table("totals")))
    assert sorted(pl.read_delta(table).rows()) == [("ann", 2), ("bob", 1)]
    assert table.schema().fields[0].metadata == {"comment": "once user, clicks"}


def test_the_remedy_works_for_a_new_column_of_an_upsert_table(lake, lakehouse):
    lake.click(("ann", 0), ("ann", 1))
    lake.run(totals())
    lake.run(CHANGES["table totals: columns"](), FullRefresh())
    assert pl.read_delta(str(lakehouse.table("totals"))).rows() == [("ann", 2, "new")]


def test_the_remedy_works_for_a_new_column_of_events_down_to_the_late_table(lake, lakehouse):
    with_place = CLICK.append(pa.field("place", pa.string()))
    lake.click(("ann", 0), ("ann", 60))
    lake.run(windows())
    with pytest.raises(KeyfoldError, match="input clicks: columns: place is new"):
        lake.run(windows(columns=with_place))
    lake.run(windows(columns=with_place), FullRefresh())
    lake.click(("bob", 1))
    assert lake.run(windows(columns=with_place)).counts.rows["late.windows"] == 1
    late = pl.read_delta(str(lakehouse.table("late.windows")))
    assert late.select("user", "place").rows() == [("bob", None)]
