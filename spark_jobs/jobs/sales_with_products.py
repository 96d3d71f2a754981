"""Sales with products: each sale with the name, category and list price of its item, by a table of products.

A lookup join (`lookup_join`): the table is small, and read whole as a run is planned. A change of it counts from the next run on;
rows that were written before stay. A sale of an item that the table lacks is written too, with NULL in the product's
columns. The job keeps no state, and no sale is late.
"""

import os

import pyarrow as pa
from pydantic import Field

from keyfold import Input, JobParameters, JobTemplate, KeyedJob, Lookup, column, required
from keyfold.columns import passed_on
from keyfold.keyed.job import FilePath
from keyfold.operators.joins import lookup_join
from spark_jobs.streams import SALES

SALE = pa.schema(
    passed_on(
        pa.schema([SALES.schema.field(name) for name in ("item", "time", "quantity", "price", "invoice", "country")])
    )
)

PRODUCT = pa.schema(
    [
        required("item", pa.string(), "The item's code or name"),
        column("product_name", pa.string(), "Name of the product; NULL of an item that the table of products lacks"),
        column("category", pa.string(), "Category of the product; NULL of an item that the table of products lacks"),
        column("list_price", pa.float64(), "List price of the product", unit="in the shop's currency"),
    ]
)
"""The table of products, a row an item."""

PRODUCTS_AT = "lookups/products.csv"
"""Where the table of products is, in the lakehouse directory, unless a deployment says otherwise."""


class SalesWithProductsParameters(JobParameters):
    """Parameters of `sales_with_products`."""

    products: FilePath = Field(
        "",
        description="Path of the table of products, a Delta table or a Parquet, CSV or JSON-lines file; one that is not absolute "
        f"is in the lakehouse directory [default: KEYFOLD_PRODUCTS, else {PRODUCTS_AT}]",
    )

    @property
    def products_at(self) -> str:
        """Where the table of products is: asked for anew by each run, so that it may be moved."""
        return self.products or os.environ.get("KEYFOLD_PRODUCTS") or PRODUCTS_AT


def build(parameters: SalesWithProductsParameters) -> KeyedJob:
    """Make the job of its parameters."""
    return lookup_join(
        "sales_with_products",
        ("sales", Input(SALES, SALE, "time")),
        ("products", Lookup(parameters.products_at, PRODUCT, ("item",))),
        key_groups=parameters.key_groups,
        parameters=parameters.model_dump(mode="json"),
        # A run has the products as they are, wherever they are.
        free_parameters=frozenset({"products"}),
        late_description="No sale is late for `sales_with_products`: the table is empty.",
    )


SALES_WITH_PRODUCTS = JobTemplate(
    "sales_with_products",
    "Each sale with the name, category and list price of its product.",
    SalesWithProductsParameters,
    build,
)
