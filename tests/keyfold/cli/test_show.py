"""`keyfold show` prints the rows and columns that are asked for, and says what is wrong with a choice."""

import json

import polars as pl
import pytest

ROWS = pl.DataFrame(
    {
        "item": ["tea", "tea", "milk", "jam", None],
        "pieces": [3, 18, 4, 7, None],
        "models": [[{"name": "black", "kilos": 0.5}], [], None, [{"name": "a\x1bb", "kilos": None}], [None]],
    },
    {
        "item": pl.String,
        "pieces": pl.Int64,
        "models": pl.List(pl.Struct({"name": pl.String, "kilos": pl.Float64})),
    },
)
PAYMENTS = pl.DataFrame({"payment_id": ["k1", "k2"], "amount": [1.5, 2.5]})


@pytest.fixture(autouse=True)
def tables(lakehouse):
    lakehouse.live_table("purchase_totals").parent.mkdir(parents=True)
    ROWS.write_delta(str(lakehouse.live_table("purchase_totals")))
    lakehouse.events("payments").parent.mkdir(parents=True)
    PAYMENTS.write_delta(str(lakehouse.events("payments")))


@pytest.fixture
def shown(keyfold):
    def rows(*arguments):
        told = keyfold("show", *arguments, "--json")
        assert told.exit_code == 0, told.output
        return [json.loads(line) for line in told.stdout.splitlines()]

    return rows


CONDITIONS = {
    "pieces > 3": pl.col("pieces") > 3,
    "item = 'tea' AND pieces < 10": (pl.col("item") == "tea") & (pl.col("pieces") < 10),
    "item IS NULL": pl.col("item").is_null(),
    "item IN ('tea', 'jam') OR pieces IS NULL": pl.col("item").is_in(["tea", "jam"]) | pl.col("pieces").is_null(),
    "pieces > 100": pl.lit(value=False),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_for_which_the_condition_is_true(keyfold, shown, condition):
    wanted = ROWS.filter(CONDITIONS[condition]).to_dicts()
    assert shown("purchase_totals", "--where", condition) == wanted
    assert f"{len(wanted)} of 5 rows" in keyfold("show", "purchase_totals", "--where", condition).stdout
    assert shown("purchase_totals", "--where", condition, "--limit", "1") == wanted[:1]


def test_columns_are_those_that_are_named_in_their_order(keyfold, shown):
    assert shown("purchase_totals", "--columns", "pieces,item") == ROWS.select("pieces", "item").to_dicts()
    # A condition may be over columns that are not shown.
    assert shown("purchase_totals", "--columns", "item", "--where", "pieces = 18") == [{"item": "tea"}]
    assert keyfold("show", "purchase_totals", "--columns", "pieces,item").stdout.split()[:2] == ["pieces", "item"]


@pytest.mark.parametrize("keys", [["tea"], ["jam", "tea"], ['{"item": "milk"}'], ["nobody"]])
def test_rows_of_a_key_of_the_job_are_shown(shown, keys):
    items = [json.loads(key)["item"] if key.startswith("{") else key for key in keys]
    arguments = [argument for key in keys for argument in ("--key", key)]
    assert shown("purchase_totals", *arguments) == ROWS.filter(pl.col("item").is_in(items)).to_dicts()
    assert [row["item"] for row in shown("purchase_totals", *arguments, "--where", "pieces < 5")] == [
        row["item"] for row in ROWS.filter(pl.col("item").is_in(items), pl.col("pieces") < 5).to_dicts()
    ]


def test_events_are_shown_by_their_id(shown):
    assert shown("events.payments", "--key", "k2") == [{"payment_id": "k2", "amount": 2.5}]


def test_lists_of_structs_are_printed_as_json_without_control_characters(keyfold):
    text = keyfold("show", "purchase_totals").stdout
    assert '[{"name": "black", "kilos": 0.5}]' in text
    assert "\x1b" not in text
    assert "[null]" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["purchase_totals", "--columns", "item,pices"],
            "the table has no column pices; its columns: item, pieces, models",
        ),
        (["purchase_totals", "--where", "pices > 3"], "--where pices > 3: "),
        (["purchase_totals", "--where", "item = tea"], "a text is in single quotes"),
        (["purchase_totals", "--where", "pieces"], "--where pieces is Int64, and no condition, such as"),
        (["purchase_totals", "--where", "pieces IN (SELECT 1)"], "SELECT is not allowed"),
        (["purchase_totals", "--where", "pieces >"], "--where pieces >: "),
        (["quarantine.payments", "--key", "k2"], "--key: quarantine.payments is of no job"),
        (["--where", "pieces > 3"], "--where needs a table"),
    ],
)
def test_a_choice_that_does_not_fit_is_an_error_that_names_it(keyfold, lakehouse, arguments, message):
    lakehouse.quarantine("payments").parent.mkdir(parents=True)
    PAYMENTS.write_delta(str(lakehouse.quarantine("payments")))
    told = keyfold("show", *arguments)
    assert told.exit_code in (1, 2), told.output
    assert message in " ".join(told.output.replace("│", " ").split())
