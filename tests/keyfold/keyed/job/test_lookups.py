"""Lookups: a step gets a small table whole, as it was when its batch was planned."""

import json
import traceback
from collections.abc import Mapping
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold import (
    Append,
    Damaged,
    Input,
    InvalidData,
    KeyedJob,
    KeyfoldError,
    Lookup,
    Misconfigured,
    NotFound,
    State,
    Step,
    Stream,
)
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job import lookups
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.step import Clock
from keyfold.operators import lookup_join
from tests.lake import Lake
from tests.shop import NOON

READ = lookups._read
ITEM = pa.field("item", pa.string(), nullable=False)
SALE = pa.schema([ITEM, pa.field("sold_at", pa.timestamp("us", tz="UTC"), nullable=False)])
SALES = Stream("sales", SALE, event_time="sold_at")
PRODUCT = pa.schema([ITEM, pa.field("title", pa.string()), pa.field("price", pa.int64())])


def job(path="products.csv"):
    return lookup_join(
        "named",
        Input(SALES, columns=SALE),
        ("products", Lookup(path, PRODUCT, ("item",))),
        key_groups=2,
    )


class Shop(Lake):
    """A lakehouse with sales, and a table of products beside them."""

    def sell(self, *items):
        times = [NOON + timedelta(minutes=1 + self.landed, seconds=at) for at in range(len(items))]
        self.land(SALES, pl.DataFrame({"item": items, "sold_at": times}))

    def products(self, text, name="products.csv"):
        (self.lakehouse.home / name).write_text(text)

    def go(self, wanted=None, *mode):
        return self.run(wanted or job(), *mode)

    @property
    def generation(self):
        return self.live("named")

    def named(self):
        return sorted(
            pl.read_delta(str(self.lakehouse.table("named"))).select("item", "title", "price").rows(), key=repr
        )


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def test_each_event_has_the_row_that_counted_when_its_run_was_planned(shop):
    shop.sell("t1", "x9")
    shop.products("item,title,price\nt1,Green tea,3\n")
    shop.go()
    shop.products("item,title,price\nt1,Green tea,4\nx9,Jam,2\n")
    shop.sell("t1", "x9")
    shop.go()
    assert shop.named() == [("t1", "Green tea", 3), ("t1", "Green tea", 4), ("x9", "Jam", 2), ("x9", None, None)]


def test_a_table_is_read_again_only_where_it_changed_and_one_copy_is_kept(shop, monkeypatch):
    read = []
    monkeypatch.setattr(lookups, "_read", lambda where, lookup, place: read.append(place) or READ(where, lookup, place))
    shop.sell("t1")
    shop.products("item,title,price\nt1,Green tea,3\n")
    shop.go()
    kept = lookups.KeptLookups("job named", job().lookups, shop.lakehouse.home, shop.generation.folder)
    read.clear()
    assert kept.plan() == kept.plan()
    assert len(read) == 1
    shop.products("item,title,price\nt1,Green tea,44\n")
    assert list(kept.plan().values()) == [file.name for file in (shop.generation.folder / "lookups").iterdir()]
    assert len(read) == 2


def test_a_batch_that_is_worked_on_again_sees_the_table_as_it_was_planned(shop, cut_power):
    shop.sell("t1")
    shop.products("item,title,price\nt1,Green tea,3\n")
    assert cut_power("work: before", shop.go)
    shop.products("item,title,price\nt1,Black tea,9\n")
    shop.go()
    assert shop.named() == [("t1", "Green tea", 3)]


def as_delta(rows, path):
    rows.write_delta(str(path))


WRITERS = {
    "products.csv": pl.DataFrame.write_csv,
    "products.ndjson": pl.DataFrame.write_ndjson,
    "products.parquet": pl.DataFrame.write_parquet,
    "products": as_delta,
}
PRODUCTS = [("x9", None, 2), ("t1", "Green tea, in a box of twenty bags", None), ("a", None, None)]


def test_rows_in_any_order_with_texts_that_are_null_are_looked_up_also_after_a_full_refresh(shop):
    path = "products"
    rows = pl.DataFrame(PRODUCTS, schema=pl.DataFrame(PRODUCT.empty_table()).schema, orient="row")
    # In several parts, each a view into a longer column.
    rows = pl.concat([rows.slice(part, 1) for part in range(3)], rechunk=False)
    as_delta(rows, shop.lakehouse.home / path)
    shop.sell("x9", "t1", "none")
    expected = sorted([*PRODUCTS[:2], ("none", None, None)], key=repr)
    shop.go(job(path))
    assert shop.named() == expected
    shop.go(job(path), FullRefresh())
    assert shop.named() == expected


def test_equal_rows_are_one_file_however_they_were_read(shop):
    """As after a restart, when each table is read again: it is not a change."""
    shop.sell("t1")
    shop.products("item,title,price\nx9,,2\nt1,Green tea,\na,,\n")
    shop.go()
    files = set()
    for path, write in WRITERS.items():
        for rows in (PRODUCTS, PRODUCTS[::-1]):
            table = shop.lakehouse.home / f"again-{len(files)}-{path}"
            frames = [
                pl.DataFrame([row], schema=pl.DataFrame(PRODUCT.empty_table()).schema, orient="row") for row in rows
            ]
            write(pl.concat(frames, rechunk=False), table)
            kept = lookups.KeptLookups(
                "job named", job(str(table)).lookups, shop.lakehouse.home, shop.generation.folder
            )
            files.update(kept.plan().values())
            table.rename(table.with_name(f"seen-{rows is PRODUCTS}-{path}"))
    assert files == {file.name for file in (shop.generation.folder / "lookups").iterdir()}
    assert len(files) == 1


def test_codes_stay_as_they_are_written_and_whole_numbers_exact(shop):
    rows = "".join(f"{number:03},,{2**53 + number}\n" for number in range(1, 200))
    shop.products(f"item,title,price\n{rows}84A,Jam,1\n")
    shop.sell("007", "84A", "7")
    shop.go()
    assert shop.named() == [("007", None, 2**53 + 7), ("7", None, None), ("84A", "Jam", 1)]


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("price", [1.0, 1.5], pl.Float64),
        ("at", [1_500], pl.Datetime("ns", "UTC")),
        ("share", [2**53 + 1], pl.Int64),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_refused_and_not_cut(column, values, kind):
    declared = pa.schema([ITEM, ("price", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("share", pa.float64())])
    rows = pl.DataFrame({"item": [str(at) for at in range(len(values))], column: pl.Series(values).cast(kind)})
    others = [pl.lit(None).alias(name) for name in declared.names if name not in rows.columns]
    with pytest.raises(InvalidData, match=f"has values in {column} that .* does not hold"):
        lookups.conform_lookup("lookup products", Lookup("p.csv", declared, ("item",)), rows.with_columns(others))


FAULTS = {
    "gone": (None, NotFound, "products.csv.* is not there"),
    "a key twice": ("item,title,price\nt1,a,1\nt1,b,2\n", InvalidData, "has the key item='t1' more than once"),
    "a key without a value": ("item,title,price\n,a,1\n", InvalidData, "rows without a value in item"),
    "no such column": ("item,title\nt1,a\n", InvalidData, "has no column price; it has item, title"),
    "another type": (
        "item,title,price\nt1,a,cheap\n",
        InvalidData,
        "could not parse `cheap` as dtype `i64` at column 'price'",
    ),
    "half a piece": (
        "item,title,price\nt1,a,1.5\n",
        InvalidData,
        "could not parse `1.5` as dtype `i64` at column 'price'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_table_that_cannot_be_looked_up_in_fails_the_plan(shop, fault):
    text, kind, reason = FAULTS[fault]
    if text:
        shop.products(text)
    home = shop.lakehouse.home
    with pytest.raises(kind, match=reason):
        lookups.KeptLookups("job named", job().lookups, home, home / "generation").plan()


PLANTED = "Quetzalcoatlus"
PRIVATE_FAULTS = {
    "csv": {
        "a key twice": f"item,title,price\n{PLANTED},a,1\n{PLANTED},b,2\n",
        "another type": f"item,title,price\nt1,a,{PLANTED}\n",
        "no header": f"{PLANTED},a,1\n",
        "a value too many": f"item,title,price\nt1,a,1,{PLANTED}\n",
        "a quote that is not closed": f'item,title,price\nt1,"{PLANTED},1\n',
    },
    "ndjson": {
        "another type": json.dumps({"item": "t1", "title": "a", "price": PLANTED}),
        "no JSON": f'{{"item": "t1", "title": {PLANTED}, "price": 1}}',
        "other columns": json.dumps({PLANTED: 1}),
        "an object": json.dumps({"item": "t1", "title": "a", "price": {PLANTED: PLANTED}}),
    },
    "parquet": {"no Parquet": PLANTED * 9},
}


@pytest.mark.parametrize(
    ("form", "fault"), [(form, fault) for form, faults in PRIVATE_FAULTS.items() for fault in faults]
)
def test_no_error_quotes_a_private_lookup(shop, form, fault):
    shop.products(PRIVATE_FAULTS[form][fault], f"products.{form}")
    home = shop.lakehouse.home
    declared = Lookup(f"products.{form}", PRODUCT, "item", private=("item", "title", "price"))
    with pytest.raises(KeyfoldError, match=r"lookup products .*products\.") as raised:
        lookups.KeptLookups("job named", {"products": declared}, home, home / "generation").plan()
    assert PLANTED not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("is_private", [True, False])
def test_an_error_of_the_step_quotes_no_private_lookup(shop, is_private):
    """Polars quotes the values that it cannot cast; an open lookup is shown, so what is looked for would be seen."""
    declared = Lookup("products.csv", PRODUCT, "item", private="title" if is_private else ())

    def cast(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        return Step(state=state, output=events["products"].select("item", pl.col("title").cast(pl.Int64)))

    failing = KeyedJob(
        "named",
        {"sales": Input(SALES, columns=SALE, conserved=False, final_at=STEP_DECIDES), "products": declared},
        "item",
        State(pa.schema([ITEM]), events=pl.lit(0)),
        cast,
        Append(pa.schema([ITEM, ("title", pa.int64())]), events=pl.lit(0)),
        key_groups=2,
    )
    shop.products(f"item,title,price\nt1,{PLANTED},1\n")
    shop.sell("t1")
    with pytest.raises(KeyfoldError, match="step failed: job named") as raised:
        shop.go(failing)
    assert (PLANTED in "".join(traceback.format_exception(raised.value))) is not is_private


def test_the_run_after_one_without_its_table_goes_on(shop):
    shop.sell("t1")
    with pytest.raises(NotFound, match=r"products.csv.* is not there"):
        shop.go()
    shop.products("item,title,price\nt1,Green tea,3\n")
    shop.go()
    assert shop.named() == [("t1", "Green tea", 3)]


def test_a_kept_table_that_was_changed_is_damage(shop, cut_power):
    shop.sell("t1")
    shop.products("item,title,price\nt1,Green tea,3\n")
    assert cut_power("work: before", shop.go)
    (kept,) = (shop.generation.folder / "lookups").iterdir()
    pl.read_parquet(kept).with_columns(price=pl.lit(99, pl.Int64)).write_parquet(kept)
    with pytest.raises(KeyfoldError, match="its digest is not the one in its name") as raised:
        shop.go()
    assert isinstance(raised.value, Damaged)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Lookup("p.csv", PRODUCT, ()), "key is empty"),
        (lambda: Lookup("p.csv", PRODUCT, ("sku",)), "key names sku"),
        (
            lambda: lookup_join(
                "j",
                Input(SALES, columns=SALE.append(pa.field("price", pa.int64()))),
                ("p", Lookup("p.csv", PRODUCT, ("item",))),
            ),
            "both sales and p have price",
        ),
        (
            lambda: lookup_join("j", Input(SALES, columns=SALE), ("p", Lookup("p.csv", PRODUCT, ("title",)))),
            "input sales has no column title",
        ),
    ],
)
def test_a_lookup_that_does_not_fit_is_refused_where_the_job_is_made(make, reason):
    with pytest.raises(Misconfigured, match=reason):
        make()
