"""A small history for every shipped job: simulated events, out of order and some late, landed in four parts."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.keyed.job.building import build_job, with_parameters
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse, create_table
from keyfold.lakehouse.commits import append_files, committed_batch
from keyfold.lakehouse.data_files import write_data_file
from keyfold.times import micros
from spark_jobs.jobs.batched_enrichment.job import BatchedEnrichmentParameters
from spark_jobs.jobs.batched_enrichment.job import build as build_enrichment
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Call, Outcome
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import ride_points_table
from spark_jobs.simulation.measurements import metrics_table, weather_table
from spark_jobs.simulation.payments import payments_table
from spark_jobs.simulation.sales import sales_table
from spark_jobs.simulation.telemetry import GEOFENCES, telemetry_table
from spark_jobs.streams import STREAMS

START = datetime(2026, 1, 5, 6, tzinfo=UTC)
END = START + timedelta(days=90)
"""By then all that is open has closed, and every model has retired."""

PARTS = 4


@dataclass(frozen=True)
class History:
    """A job as it is run here.

    Attributes:
        name: the job's.
        given: its parameters.
    """

    name: str
    given: dict[str, Any] = field(default_factory=dict)

    def job(self, **other: Any) -> KeyedJob:
        """The job, of the parameters here and others."""
        given = {"key_groups": 5, **self.given, **other}
        if self.name == "batched_enrichment":
            return build_job(with_parameters(_with_a_service), given)
        return build_job(JOBS[self.name], given)

    def parts(self, seed: int = 1) -> list[pl.DataFrame]:
        """Events as they came: four deliveries, each with some that are older than what came before them."""
        job = self.job()
        return deliveries(EVENTS[job.only_input.stream.name](seed), job.event_time, seed)

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.given.values())])


def _with_a_service(parameters: BatchedEnrichmentParameters) -> KeyedJob:
    return build_enrichment(parameters, connected)


HISTORIES: Sequence[History] = (
    History("ride_summaries"),
    History("ride_summaries", {"close": "complete"}),
    History("ride_summaries", {"timeout_in": "processing_time"}),
    History("moving_averages", {"n_readings": 4, "timeout": "5h"}),
    History("moving_averages", {"n_readings": 4, "timeout_in": "processing_time"}),
    History("anomaly_predictions", {"min_events": 5}),
    History("anomaly_predictions", {"learn": "every_interval", "min_events": 5}),
    History("anomaly_predictions", {"model": "ewma", "learn": "complete_window", "window": "2h", "min_events": 5}),
    History("anomaly_predictions", {"model": "ewma", "emit": "all", "min_events": 5}),
    # So long that none is due, since it goes by processing time, and two lines of runs are not compared at one moment.
    History(
        "anomaly_predictions",
        {"model": "ewma", "order": "arrival", "learn": "refresh", "refresh_after": "9h", "min_events": 5},
    ),
    History("vehicle_trips"),
    History("fleet_warnings", {"geofences": str(GEOFENCES)}),
    History("top_products", {"k": 3}),
    History("purchase_totals"),
    History("purchase_totals", {"order": "event_time"}),
    History("purchase_totals", {"order": "event_time", "expire_after": "1h", "timeout_in": "processing_time"}),
    History("event_index"),
    History("event_index", {"stream": "sales", "key": "item"}),
    History("event_index", {"stream": "sales", "key": "item", "expire_after": "30m"}),
    History("event_index", {"window": "1h every 20m"}),
    History("model_totals"),
    # Clean meters never jump: what they earn in a minute is above this in many rides.
    History("ride_meter_jumps", {"jump": 0.1}),
    History("card_in_two_cities", {"within": "40m"}),
    History("batched_enrichment", {"max_size": 7}),
)


@asynccontextmanager
async def connected() -> AsyncIterator[Call]:
    """A client of the service."""

    async def call(batch: Batch) -> list[Outcome]:
        return answer(batch)

    yield call


def answer(batch: Batch) -> list[Outcome]:
    """A service that knows how long each event is, and will have nothing of one in eleven."""
    return [
        Outcome(None, 1, 422, "too long") if len(event) % 11 == 0 else Outcome(str(len(event)), 1, 200)
        for event in batch.events
    ]


def deliveries(events: pl.DataFrame, event_time: str, seed: int) -> list[pl.DataFrame]:
    """Events in the order in which they came, in parts: most within minutes, one in fifty hours late."""
    rng = np.random.default_rng(seed)
    delay = rng.exponential(120, events.height) + np.where(rng.random(events.height) < 0.02, 3 * 3600, 0)
    came = events.with_columns((pl.col(event_time) + pl.Series(delay * 1e6).cast(pl.Duration("us"))).alias("#came"))
    size = -(-events.height // PARTS)
    return [part.drop("#came") for part in came.sort("#came").iter_slices(size)]


def put(lakehouse: Lakehouse, stream: str, events: pl.DataFrame, schema: pa.Schema | None = None) -> None:
    """Put events into the event table as ingest does, one file a call; of a schema, or that of a shipped stream."""
    table, schema = lakehouse.events(stream), schema or STREAMS[stream].schema
    create_table(table, schema)
    number = committed_batch(table, "ingest")
    typed = events.select(pl.col(name).cast(kind) for name, kind in polars_schema(schema).items())
    written = write_data_file(typed, table, schema)
    append_files(table, [written], "ingest", 0 if number is None else number + 1)


def _grid(hours: float, seconds: int) -> np.ndarray:
    return np.arange(micros(START), micros(START + timedelta(hours=hours)), seconds * 1_000_000, dtype=np.int64)


def _rides(seed: int) -> pl.DataFrame:
    table = ride_points_table(30, 12, seed, START, rides_per_hour=12)
    # One ride in five never drops off.
    silent = pl.col("ride_id").is_in(table["ride_id"].unique(maintain_order=True).gather_every(5).implode())
    return table.filter(~(silent & (pl.col("ride_status") == "dropoff")))


def _weather(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    table = weather_table(rng, 5, micros(START), micros(START + timedelta(hours=30)))
    return table.filter(pl.Series(rng.random(table.height) > 0.3))


def _metrics(seed: int) -> pl.DataFrame:
    return metrics_table(np.random.default_rng(seed), 3, micros(START), micros(START + timedelta(hours=8)))


def _telemetry(seed: int) -> pl.DataFrame:
    table = telemetry_table(np.random.default_rng(seed), 6, _grid(1.5, 10))
    return table.filter(pl.int_range(pl.len()) % 3 != 0)


def _sales(seed: int) -> pl.DataFrame:
    return sales_table(np.random.default_rng(seed), 300, micros(START), micros(START + timedelta(hours=8)))


def _payments(seed: int) -> pl.DataFrame:
    return payments_table(np.random.default_rng(seed), 60, micros(START), micros(START + timedelta(hours=12)))


EVENTS: dict[str, Callable[[int], pl.DataFrame]] = {
    "ride_points": _rides,
    "weather": _weather,
    "metrics": _metrics,
    "telemetry": _telemetry,
    "sales": _sales,
    "payments": _payments,
}
"""Clean events of each stream in order of time."""
