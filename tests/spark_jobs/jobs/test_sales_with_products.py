"""Sales with products: each sale with its row of the table of products, as DuckDB joins them, by the table of the run."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest

import keyfold
from keyfold import KeyfoldError, Lakehouse
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.parameters import build_job
from keyfold.times import micros
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.sales_with_products import PRODUCTS_AT
from spark_jobs.simulation.sales import products_table, sales_table
from spark_jobs.streams import SALES
from tests.keyfold.keyed.without_spark import cut_power, without_spark

__all__ = ["cut_power", "without_spark"]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEFT_JOIN = """
    SELECT s.item, s.time, s.quantity, s.price, s.invoice, product_name, category, list_price
    FROM sales s LEFT JOIN products p ON s.item = p.item
"""


class Shop:
    """A lakehouse with sales and a table of products."""

    def __init__(self, folder, spark):
        self.lakehouse, self._spark, self.came = Lakehouse(folder), spark, []
        self.sell_by(products_table())

    def sell_by(self, products):
        """Write the table of products."""
        path = self.lakehouse.home / PRODUCTS_AT
        path.parent.mkdir(parents=True, exist_ok=True)
        products.write_csv(path)

    def sell(self, seed):
        begin = NOON + timedelta(hours=seed)
        sales = sales_table(np.random.default_rng(seed), 300, micros(begin), micros(begin + timedelta(hours=1)))
        landing = self.lakehouse.landing("sales")
        landing.mkdir(parents=True, exist_ok=True)
        sales.rename({"models": "model"}).write_parquet(str(landing / f"{seed}.parquet"))
        keyfold.ingest(self._spark, self.lakehouse, SALES)
        return sales

    def run(self, mode=None, **parameters):
        job = build_job(JOBS["sales_with_products"], {"key_groups": 4, **parameters})
        keyfold.run(self._spark, self.lakehouse, job, *([mode] if mode else []))

    @property
    def rows(self):
        table = pl.read_delta(str(self.lakehouse.table("sales_with_products")))
        return sorted(table.drop("country").rows(), key=repr)


@pytest.fixture
def shop(tmp_path, without_spark):
    return Shop(tmp_path, without_spark)


def joined(sales, products):
    connection = duckdb.connect()
    connection.register("sales", sales)
    connection.register("products", products)
    return connection.sql(LEFT_JOIN).pl().with_columns(pl.col("time").dt.convert_time_zone("UTC")).rows()


def test_each_sale_has_its_product_and_one_of_an_unknown_item_has_none(shop):
    sales = shop.sell(1)
    known = products_table().filter(pl.col("item") != sales["item"].mode()[0])
    shop.sell_by(known)
    shop.run()
    assert shop.rows == sorted(joined(sales, known), key=repr)
    assert any(row[5] is None for row in shop.rows)


def test_a_table_of_products_that_changes_counts_from_the_next_run_on_and_by_a_refresh_for_all(shop):
    first = shop.sell(1)
    shop.run()
    dearer = products_table().with_columns(pl.col("list_price") * 2)
    shop.sell_by(dearer)
    second = shop.sell(2)
    shop.run()
    assert shop.rows == sorted([*joined(first, products_table()), *joined(second, dearer)], key=repr)
    shop.run(FullRefresh())
    assert shop.rows == sorted(joined(pl.concat([first, second]), dearer), key=repr)


@pytest.mark.parametrize("point", ["commit: before", "work: after", "done: after"])
def test_a_run_that_broke_off_goes_on_with_the_table_that_it_was_planned_with(shop, cut_power, point):
    sales = shop.sell(1)
    assert cut_power(point, shop.run)
    shop.sell_by(products_table().with_columns(category=pl.lit("other")))
    shop.run()
    assert shop.rows == sorted(joined(sales, products_table()), key=repr)


def test_the_table_may_lie_elsewhere_and_move(shop, tmp_path, monkeypatch):
    shop.sell(1)
    shop.run()
    elsewhere = tmp_path / "elsewhere.parquet"
    products_table().with_columns(category=pl.lit("moved")).write_parquet(elsewhere)
    monkeypatch.setenv("KEYFOLD_PRODUCTS", str(elsewhere))
    shop.sell(2)
    shop.run()
    assert {row[6] for row in shop.rows} >= {"moved", "Devices"}


def test_a_table_that_is_gone_or_has_an_item_twice_is_refused_and_nothing_is_written(shop):
    shop.sell(1)
    shop.sell_by(pl.concat([products_table(), products_table().head(1)]))
    with pytest.raises(KeyfoldError, match="has the key item='20000A' more than once"):
        shop.run()
    (shop.lakehouse.home / PRODUCTS_AT).unlink()
    with pytest.raises(KeyfoldError, match=r"sales_with_products: lookup products .*products\.csv\) is not there"):
        shop.run()
    shop.sell_by(products_table())
    shop.run()
    assert len(shop.rows) == 300
