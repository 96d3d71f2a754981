"""Files as they land: lines of the stream `EVENTS` and others, how they are ingested, and the counts that always hold."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from keyfold.ingestion import (
    IngestCounts,
    IngestSummary,
    ingest_totals,
)
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest_continuously
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT, Stream
from tests.lake import LOCAL
from tests.schemas import schema_of

AnyPlace = TypeVar("AnyPlace", bound=Place)
START = datetime(2016, 6, 21, 17, tzinfo=UTC)
AT_ONCE = timedelta(0)
"""How long a file must be as it is until it is read."""

EVENTS = Stream(
    name="clicks",
    schema=schema_of("user string!, seq int64, at time!, note string"),
    event_time="at",
    event_id=("user", "seq"),
    duplicate_window=timedelta(days=1),
)


def event(user: str = "u", seq: int | None = 1, hours: float = 0, note: str | None = None) -> dict[str, Any]:
    return {"user": user, "seq": seq, "at": (START + timedelta(hours=hours)).isoformat(), "note": note}


def land(path: AnyPlace, events: list[dict[str, Any]], *more: str) -> AnyPlace:
    """Write a file of NDJSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*(json.dumps(event) for event in events), *more]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows(path: Place) -> list[tuple[Any, ...]]:
    """A Delta table's rows but for their arrival, sorted, read without Spark."""
    table = DeltaTable(str(path)).to_pyarrow_table()
    columns = table.select([name for name in table.schema.names if name != INGESTED_AT])
    return sorted((tuple(row.values()) for row in columns.to_pylist()), key=repr)


def tables(lakehouse: Lakehouse, stream: Stream = EVENTS) -> tuple[list[Any], list[Any], IngestCounts]:
    events, quarantine = rows(lakehouse.events(stream.name)), rows(lakehouse.quarantine(stream.name))
    return events, quarantine, ingest_totals(lakehouse, stream)


def check_counts(lakehouse: Lakehouse, summary: IngestSummary, stream: Stream = EVENTS) -> None:
    """What always holds of a run, the tables and the totals."""
    events, quarantine, totals = tables(lakehouse, stream)
    assert summary.rows_read == summary.accepted + summary.quarantined + summary.duplicates
    assert totals == summary.totals
    assert totals.rows_read == totals.accepted + totals.quarantined + totals.duplicates
    assert (len(events), len(quarantine)) == (totals.accepted, totals.quarantined)


def put(path: AnyPlace, text: str = "{}\n") -> AnyPlace:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def metric(number: int) -> str:
    return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "value": number}) + "\n"


def quarantine(lakehouse: Lakehouse, stream: str = "metrics") -> list[dict]:
    return DeltaTable(str(lakehouse.quarantine(stream))).to_pyarrow_table().to_pylist()


def local_runners(parallelism: int) -> Runners:
    """Runners in this process, with so many tasks."""
    runners = Runners("local")
    runners.for_bytes(0).parallelism = parallelism  # pyright: ignore[reportAttributeAccessIssue]
    return runners


@contextmanager
def going_on(lakehouse: Lakehouse, landing: Any, **options: Any) -> Iterator[dict[str, Any]]:
    """Ingest in the background, and its summary once it was told to stop."""
    stop, ended = threading.Event(), {}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            ingest_continuously, lakehouse, EVENTS, landing, stop=stop, runners=LOCAL, **{"settle": AT_ONCE, **options}
        )
        try:
            yield ended
        finally:
            stop.set()
            ended["summary"] = running.result(60)


def accepted(lakehouse: Lakehouse) -> int:
    return ingest_totals(lakehouse, EVENTS).accepted


ROWS_OF_PARQUET = 200


def parquet(**more: pa.Array) -> bytes:
    times = pa.array([1_700_000_000_000_000 + at for at in range(ROWS_OF_PARQUET)], pa.timestamp("us", tz="UTC"))
    keys = pa.array([f"x{at % 5}" for at in range(ROWS_OF_PARQUET)])
    rows = pa.table({"key": keys, "timestamp": times, "value": pa.array(range(ROWS_OF_PARQUET), pa.float64())} | more)
    content = pa.BufferOutputStream()
    pq.write_table(rows, content)
    return content.getvalue().to_pybytes()


def stored(lakehouse: Lakehouse) -> list[tuple[Any, ...]]:
    rows = DeltaTable(str(lakehouse.events("clicks"))).to_pyarrow_table().to_pylist()
    events = ((row["user"], row["seq"], int((row["at"] - START) / timedelta(hours=1)), row["note"]) for row in rows)
    return sorted(events, key=repr)
