"""Sales with products: each sale with its row of the table of products, as DuckDB joins them, by the table of the run."""

from datetime import timedelta

import duckdb
import numpy as np
import polars as pl
import pytest

from keyfold.keyed.job.building import build_job
from keyfold.times import micros
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.sales_with_products import PRODUCTS_AT
from spark_jobs.simulation.sales import products_table, sales_table
from spark_jobs.streams import SALES
from tests.lake import Lake
from tests.shop import NOON

LEFT_JOIN = """
    SELECT s.item, s.time, s.quantity, s.price, s.invoice, product_name, category, list_price
    FROM sales s LEFT JOIN products p ON s.item = p.item
"""


class Shop(Lake):
    """A lakehouse with sales and a table of products."""

    def sell_by(self, products):
        """Write the table of products."""
        path = self.lakehouse.home / PRODUCTS_AT
        path.parent.mkdir(parents=True, exist_ok=True)
        products.write_csv(path)

    def sell(self, seed):
        begin = NOON + timedelta(hours=seed)
        sales = sales_table(np.random.default_rng(seed), 300, micros(begin), micros(begin + timedelta(hours=1)))
        self.land(SALES, sales.rename({"models": "model"}))
        return sales

    def run_all(self):
        self.run(build_job(JOBS["sales_with_products"], {"key_groups": 4}))
        table = pl.read_delta(str(self.lakehouse.table("sales_with_products")))
        return sorted(table.drop("country").rows(), key=repr)


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    shop.sell_by(products_table())
    return shop


def joined(sales, products):
    connection = duckdb.connect()
    connection.register("sales", sales)
    connection.register("products", products)
    return connection.sql(LEFT_JOIN).pl().with_columns(pl.col("time").dt.convert_time_zone("UTC")).rows()


def test_each_sale_has_its_product_and_one_of_an_unknown_item_has_none(shop):
    sales = shop.sell(1)
    known = products_table().filter(pl.col("item") != sales["item"].mode()[0])
    shop.sell_by(known)
    rows = shop.run_all()
    assert rows == sorted(joined(sales, known), key=repr)
    assert any(row[5] is None for row in rows)


def test_the_table_may_lie_elsewhere_and_move(shop, tmp_path, monkeypatch):
    shop.sell(1)
    shop.run_all()
    elsewhere = tmp_path / "elsewhere.parquet"
    products_table().with_columns(category=pl.lit("moved")).write_parquet(elsewhere)
    monkeypatch.setenv("KEYFOLD_PRODUCTS", str(elsewhere))
    shop.sell(2)
    assert {row[6] for row in shop.run_all()} >= {"moved", "Devices"}
