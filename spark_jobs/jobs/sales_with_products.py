"""Join each sale with the name, category and list price of its item, from a table of products.

A lookup join (`lookup_join`): the table is small, and all of it is read when a run is planned. The next run uses a changed
table; rows that are written do not change. A sale of an unknown item is written with NULL in the product's columns. The job keeps no
state, and no sale is late.
"""

import os

import pyarrow as pa

from keyfold import (
    FilePath,
    Input,
    JobParameters,
    KeyedJob,
    Lookup,
    column,
    parameter,
    passed_on,
    required,
    with_parameters,
)
from keyfold.operators import lookup_join
from spark_jobs.streams import SALES

SALE = pa.schema(
    passed_on(
        pa.schema([SALES.schema.field(name) for name in ("item", "time", "quantity", "price", "invoice", "country")])
    )
)

PRODUCT = pa.schema(
    [
        required("item", pa.string(), "The item's code or name"),
        column("product_name", pa.string(), "Name of the product; NULL if the table of products lacks the item"),
        column("category", pa.string(), "Category of the product; NULL if the table of products lacks the item"),
        column("list_price", pa.float64(), "List price of the product", unit="in the shop's currency"),
    ]
)
"""Schema of the table of products, one row per item."""

PRODUCTS_AT = "lookups/products.csv"
"""Default path of the table of products in the lakehouse directory."""


class SalesWithProductsParameters(JobParameters):
    """Parameters of `sales_with_products`."""

    # The path does not belong to the generation: every run reads the table as it is.
    products: FilePath = parameter(
        "",
        description="Path of the table of products: a Delta table or a Parquet, CSV or JSON-lines file. A relative path is "
        f"below the lakehouse directory [default: KEYFOLD_PRODUCTS, else {PRODUCTS_AT}]",
        change="free",
    )

    @property
    def products_at(self) -> str:
        """The path of the table of products; read by each run, so that the table may be moved."""
        return self.products or os.environ.get("KEYFOLD_PRODUCTS") or PRODUCTS_AT


def build(parameters: SalesWithProductsParameters) -> KeyedJob:
    """Each sale with the name, category and list price of its product."""
    return lookup_join(
        "sales_with_products",
        Input(SALES, columns=SALE),
        ("products", Lookup(parameters.products_at, PRODUCT, ("item",))),
    )


SALES_WITH_PRODUCTS = with_parameters(build)
