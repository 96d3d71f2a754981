"""A job with several inputs in Dagster: its assets depend on all that it reads, and its columns tell of which table they are."""

from dataclasses import replace

import pyarrow as pa
import pytest

from keyfold import Input, KeyedJob, Step, Stream, build_job
from keyfold.columns import column, required
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.metadata import column_lineage
from keyfold.dagster.assets.shown import JobAssets
from keyfold.dagster.translator import DEFAULT
from keyfold.errors import Misconfigured
from keyfold.keyed.job.tables import Append
from keyfold.operators import lookup_join
from spark_jobs.jobs.sales_with_products import SALES_WITH_PRODUCTS
from spark_jobs.streams import SALES

TIME = pa.timestamp("us", tz="UTC")
USER = required("user", pa.string(), "Who")
ORDER = pa.schema([USER, required("ordered_at", TIME, "When")])
PAYMENT = pa.schema([USER, required("paid_at", TIME, "When"), column("card", pa.string(), "By what card")])
ORDERS = Stream("orders", ORDER, event_time="ordered_at")
PAYMENTS = Stream("payments", PAYMENT, event_time="paid_at", private=("card",))
OUTPUT = pa.schema([USER, column("last", pa.string(), "The last card", lineage="card")])


def made(name, inputs):
    step = lambda state, events, clock: Step(state=state, output=events["orders"])  # noqa: E731
    return KeyedJob(name, inputs, "user", pa.schema([USER]), step, Append(OUTPUT))


OF_ORDERS = Input(ORDERS, columns=ORDER, final_at="ordered_at")
PAID = made(
    "paid_orders",
    {"orders": OF_ORDERS, "payments": Input(PAYMENTS, columns=PAYMENT, delay="1h", final_at="paid_at")},
)
LATE = build_job(PAID).table("late.paid_orders")
FURTHER = made(
    "followed",
    {
        "orders": OF_ORDERS,
        "late": Input(LATE, "event_time", columns=("user", "event_time"), final_at="event_time", conserved=False),
    },
)


def dependencies(declared):
    (spec,) = [one for one in keyed_assets(JobAssets(declared)).specs if one.key.path[-1] == declared.name]
    return {dependency.asset_key.to_user_string() for dependency in spec.deps}


def test_an_asset_depends_on_every_table_that_its_job_reads():
    assert dependencies(PAID) == {"orders_events", "payments_events"}
    assert dependencies(FURTHER) == {"orders_events", DEFAULT.get_asset_key("late.paid_orders").to_user_string()}


def test_a_column_is_traced_to_the_inputs_that_have_it():
    job = build_job(PAID)
    late = column_lineage(job, job.tables[-1]).deps_by_column
    assert [one.asset_key for one in late["user"]] == [
        DEFAULT.get_asset_key("events.orders"),
        DEFAULT.get_asset_key("events.payments"),
    ]
    on_top = build_job(FURTHER)
    traced = column_lineage(on_top, on_top.tables[0]).deps_by_column["last"]
    assert [one.asset_key for one in traced] == [DEFAULT.get_asset_key("late.paid_orders")]
    assert [one.asset_key for one in late["card"]] == [DEFAULT.get_asset_key("events.payments")]


def test_what_is_private_of_any_input_is_private_of_the_job_and_of_a_job_on_it():
    job = build_job(PAID)
    assert "last" in job.private_of(OUTPUT)
    assert "card" in job.private
    assert not {"input", "user", "event_time"} & job.private
    assert "card" in LATE.private


def test_a_column_of_a_lookup_is_private_only_if_the_lookup_says_so():
    job = build_job(SALES_WITH_PRODUCTS)
    assert job.sources[0].private
    assert not {"product_name", "category", "list_price"} & job.private_of(job.tables[0].schema)
    (name, products) = next(iter(job.lookups.items()))
    told = lookup_join("told", SALES, (name, replace(products, private=("list_price",))))
    private = told.private_of(told.tables[0].schema)
    assert {"list_price", *SALES.private} <= private
    assert not {"product_name", "category", "item"} & private
    with pytest.raises(Misconfigured, match="private names nobody, which its columns lack"):
        replace(products, private=("nobody",))
