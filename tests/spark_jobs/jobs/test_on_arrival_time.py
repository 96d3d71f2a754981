"""Jobs that go by arrival, from landing files to their tables, against plain Python and DuckDB."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal, ingest_totals
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generation_record import RECORD
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse.log_changes import snapshot
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import micros
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import SALES
from tests.lake import Lake
from tests.spark_jobs.jobs.sales_oracle import Totals

DRIVER: Any = Runners("local")
"""As much of a session as ingest asks for where it reads files itself."""

OLD = datetime(2010, 12, 1, 8, 26, tzinfo=UTC)


def sale(item: str, quantity: int, *models: str, at: datetime | None = None) -> dict[str, Any]:
    """A message as its producer sends it, with a time or without."""
    told = {"item": item, "quantity": quantity, "model": list(models)}
    return told if at is None else {**told, "time": at.isoformat()}


class House:
    """A lakehouse into which messages come, a file at a time; remembers when each arrived."""

    def __init__(self, lakehouse, stream, spark=DRIVER):
        self.lakehouse, self._stream, self._spark = lakehouse, stream, spark
        self.arrivals: list[datetime] = []

    def come(self, *messages: dict[str, Any]) -> datetime:
        landing = self.lakehouse.landing(self._stream.name)
        landing.mkdir(parents=True, exist_ok=True)
        file = landing / f"{len(list(landing.iterdir())):03}.json"
        file.write_text("".join(f"{json.dumps(one)}\n" for one in messages))
        ingest(self.lakehouse, self._stream, runners=self._spark)
        journal = ingest_journal(self.lakehouse, self._stream.name)
        last = journal.last_done()
        plan = journal.plan(last.batch) if last else None
        assert plan is not None
        self.arrivals.append(plan.planned_at)
        return plan.planned_at

    def rows(self, table: str) -> list[tuple]:
        return sorted(pl.read_delta(str(self.lakehouse.table(table))).rows(), key=repr)


@pytest.fixture
def shop(lakehouse) -> House:
    return House(lakehouse, SALES)


FILES = [
    [sale("Mac", 5, "Macbook air"), sale("Mac", 2, "Macbook pro", at=OLD), sale("Watch", 1, "Ultra", at=OLD)],
    [sale("Mac", -1, "Macbook air", at=OLD - timedelta(days=9)), sale("Watch", 3)],
    [sale("Phone", 4, "13", at=OLD + timedelta(days=9)), sale("Mac", 1, "Macbook pro"), sale("Mac", 1, "Macbook pro")],
]


def as_arrived(files, arrivals) -> list[list[dict[str, Any]]]:
    """The messages as the oracle takes them: all of a file are of its arrival."""
    return [
        [{"item": one["item"], "quantity": one["quantity"], "models": one["model"], "time": at} for one in messages]
        for messages, at in zip(files, arrivals, strict=True)
    ]


@pytest.mark.parametrize("order", ["arrival", "event_time"])
def test_purchase_totals_by_arrival_add_up_in_the_order_in_which_files_were_admitted(without_spark, shop, order):
    job = build_job(PURCHASE_TOTALS, {"time": "arrival", "order": order, "delay": "0s"})
    for messages in FILES:
        shop.come(*messages)
        run_job(shop.lakehouse, job, runners=without_spark)
    oracle, expected = Totals(), []
    for messages in as_arrived(FILES, shop.arrivals):
        expected += oracle.add(messages)
    # With no delay all that came has passed when its run ends, the newest too.
    assert shop.rows("purchase_totals") == sorted(expected, key=repr)
    assert shop.rows("latest_purchase_totals") == sorted(oracle.latest(), key=repr)
    assert shop.rows("late.purchase_totals") == []
    # Read all at once, the answer is the same: arrivals are in the table, and not of the run.
    run_job(shop.lakehouse, job, FullRefresh(), runners=without_spark)
    assert shop.rows("purchase_totals") == sorted(expected, key=repr)


def test_messages_without_a_time_lie_in_files_apart_so_that_none_spans_the_years_between(shop):
    arrived = shop.come(*FILES[0])
    files = snapshot(shop.lakehouse.events("sales"), "time").files
    assert sorted((file.rows, file.first, file.last) for file in files) == [
        (1, micros(arrived), micros(arrived)),
        (2, micros(OLD), micros(OLD)),
    ]


def test_copies_are_told_by_their_ids_whichever_of_them_has_a_time(shop):
    named = replace(
        SALES, event_id=("invoice",), schema=SALES.schema.set(5, SALES.schema.field("invoice").with_nullable(False))
    )
    shop = House(shop.lakehouse, named)
    first = shop.come(
        {**sale("Mac", 5), "invoice": "1"}, {**sale("Mac", 5), "invoice": "1"}, {**sale("Mac", 7), "invoice": "2"}
    )
    shop.come({**sale("Mac", 5), "invoice": "1"}, {**sale("Mac", 7, at=first), "invoice": "2"})
    # Years apart, it is another event: times are compared, whichever they are.
    shop.come({**sale("Mac", 5, at=OLD), "invoice": "1"})
    rows = pl.read_delta(str(shop.lakehouse.events("sales"))).select("invoice", "time", INGESTED_AT)
    # Of copies the first stands, with its arrival.
    assert sorted(rows.rows()) == [("1", OLD, shop.arrivals[2]), ("1", first, first), ("2", first, first)]
    assert ingest_totals(shop.lakehouse, named).duplicates == 3


def test_a_generation_of_before_a_parameter_goes_on_with_its_default_and_with_no_other_value(without_spark, shop):
    shop.come(*FILES[0])
    run_job(shop.lakehouse, build_job(PURCHASE_TOTALS), runners=without_spark)
    live = Lake(shop.lakehouse).live(PURCHASE_TOTALS.name)
    record = json.loads((live.folder / RECORD).read_text())
    del record["parameters"]["time"], record["parameters"]["expire_after"]
    (live.folder / RECORD).write_text(json.dumps(record))
    run_job(shop.lakehouse, configured_job(shop.lakehouse, PURCHASE_TOTALS), runners=without_spark)
    with pytest.raises(KeyfoldError, match=r"parameter time: None → arrival"):
        run_job(
            shop.lakehouse,
            configured_job(shop.lakehouse, PURCHASE_TOTALS, parameters={"time": "arrival"}),
            runners=without_spark,
        )


@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if job.streams])
def test_every_job_can_go_by_arrival_and_is_what_it_was_where_it_does_not(name):
    usual, arrived = build_job(JOBS[name]), build_job(JOBS[name], {"time": "arrival"})
    streams = [one for one in arrived.inputs.values() if isinstance(one.stream, Stream)]
    assert {one.stored_time for one in streams} == {INGESTED_AT}
    assert arrived.parameters["time"] == "arrival"
    assert all(one.stored_time == one.event_time for one in usual.inputs.values())
    assert usual.parameters["time"] == "event"
    kept = {table.name for table in arrived.tables}
    assert kept == {table.name for table in usual.tables}
