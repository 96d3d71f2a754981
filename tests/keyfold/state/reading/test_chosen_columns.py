"""`keyfold state read --columns`: the form that another system wants, whatever the job's state is called."""

import json
from datetime import timedelta

import polars as pl
import pytest
from typer.testing import CliRunner

from keyfold.cli.state_commands import app
from keyfold.keyed.job_run import run_job
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.streams import SALES
from tests.keyfold.keyed.toy_jobs import windows
from tests.shop import NOON

SOLD = [("Watch", 1930, ["Wi-2", "Wi-1"]), ("Ring", 2, []), ("Watch", -1, ["Wi-3"]), ("Lamp", 4, ["L"])]


@pytest.fixture
def read(lakehouse, without_spark):
    """`keyfold state read` of a job that has run over sales."""
    sold = {
        "item": [item for item, _, _ in SOLD],
        "quantity": [n for _, n, _ in SOLD],
        "models": [m for _, _, m in SOLD],
    }
    times = [NOON + timedelta(minutes=minute) for minute in range(len(SOLD))]
    kinds = {field.name: field.type for field in SALES.event_schema}
    rows = pl.DataFrame({**sold, "time": times, "ingested_at": times})
    lacking = [pl.lit(None, pl.String).alias(name) for name in kinds if name not in rows.columns]
    rows.with_columns(lacking).select(list(kinds)).write_delta(str(lakehouse.events("sales")))
    run_job(lakehouse, PURCHASE_TOTALS, runners=without_spark)

    def call(*words, code=0):
        result = CliRunner().invoke(app, ["read", "purchase_totals", *words, "--home", str(lakehouse.home)])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return call


def test_state_is_printed_as_an_item_with_its_models_and_quantities_and_nothing_else(read):
    printed = read("--columns", "models=_models,quantities=cumulative_quantity").splitlines()
    assert sorted(printed) == [
        '{"item":"Lamp","models":["L"],"quantities":4}',
        '{"item":"Ring","models":[],"quantities":2}',
        '{"item":"Watch","models":["Wi-1","Wi-2","Wi-3"],"quantities":1929}',
    ]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("cumulative_quantity", {"item": "Watch", "cumulative_quantity": 1929}),
        ("cumulative_quantity, item", {"item": "Watch", "cumulative_quantity": 1929}),
        ("n = cumulative_quantity,m=cumulative_quantity", {"item": "Watch", "n": 1929, "m": 1929}),
        ("what=item,models=_models", {"item": "Watch", "what": "Watch", "models": ["Wi-1", "Wi-2", "Wi-3"]}),
    ],
)
def test_a_row_has_the_key_and_the_columns_in_their_order_in_lines_and_in_parquet(read, tmp_path, columns, expected):
    (row,) = map(json.loads, read("--key", "Watch", "--columns", columns).splitlines())
    assert list(row.items()) == list(expected.items())
    read("--columns", columns, "--to", str(tmp_path / "out"))
    table = pl.read_parquet(tmp_path / "out" / "*.parquet")
    assert table.columns == list(expected)
    assert table.filter(item="Watch").to_dicts() == [expected]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("quantities", "there is no column quantities; did you mean quantity?"),
        ("n=quantity,n=time", "n is there twice"),
        ("item=quantity", "item is there twice; the key is always in a row"),
        ("quantity,", "lacks a name: write it as COLUMN,NAME=COLUMN"),
        ("", "lacks a name"),
        ("n=", "lacks a name"),
    ],
)
def test_columns_that_are_not_there_or_have_one_name_are_refused(read, columns, reason):
    assert reason in " ".join(read("--columns", columns, code=1).split())


def test_a_key_of_several_rows_has_a_line_for_each(lakehouse, without_spark, land):
    land(("ann", 1), ("ann", 14))
    run_job(lakehouse, windows(), runners=without_spark)
    words = ["read", "windows", "--columns", "clicks", "--home", str(lakehouse.home)]
    printed = CliRunner().invoke(app, words).stdout.splitlines()
    assert list(map(json.loads, printed)) == 2 * [{"user": "ann", "clicks": 1}]
