"""What a job's state is like: its size, how it lies over key groups, its timers, how it grew."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.keyed.contract import DEADLINE, STALE_AT
from keyfold.keyed.generations import Generation
from keyfold.keyed.runner import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.state.places import Role, find_generation, generations_of, retained_batches, state_bytes
from keyfold.state.reader import Blob, StateRows, decode_group
from keyfold.times import from_micros

_TIMERS_SHOWN = 5


@dataclass(frozen=True)
class ListedGeneration:
    """A generation, as its own records tell of it; no state is read.

    Attributes:
        job, generation, role: what it is: `live`, `kept` or `branch`.
        born_at: ISO 8601.
        key, key_groups, schema_version: that it was born with.
        retained: batches of which it has the state.
        watermark: event time reached, None before any event.
        open_events: that its state stands for, by the journal.
        bytes: of the last batch's state on disk, compressed.
    """

    job: str
    generation: str
    role: Role
    born_at: str
    key: tuple[str, ...]
    key_groups: int
    schema_version: int
    retained: tuple[int, ...]
    watermark: datetime | None
    open_events: int
    bytes: int


@dataclass(frozen=True)
class Growth:
    """How large the state was after a batch: open events by the journal, bytes on disk (None once not retained)."""

    batch: int
    finished_at: datetime
    open_events: int
    bytes: int | None


@dataclass(frozen=True)
class Timers:
    """The timers of one kind: how many rows have one, the earliest and the latest, and the keys that are due next."""

    rows: int
    first: datetime | None
    last: datetime | None
    next: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class StateStatistics:
    """What a job's state is like after a batch.

    Attributes:
        job, generation, batch: whose it is.
        rows, keys: that it holds.
        bytes: of its blobs, as they are kept (Parquet, LZ4).
        key_groups: of the job; `groups_used` have any row.
        largest_group: rows of the largest key group; `skew` is that over the mean of those used.
        largest: the five largest groups: number, rows, keys, bytes.
        timers: by column, `deadline` (event time) and `stale_at` (processing time), those that the job has.
        watermark: event time reached: deadlines before it are due.
        growth: over the last batches, oldest first.
    """

    job: str
    generation: str
    batch: int | None
    rows: int
    keys: int
    bytes: int
    key_groups: int
    groups_used: int
    largest_group: int
    skew: float
    largest: tuple[dict[str, int], ...]
    timers: dict[str, Timers]
    watermark: datetime | None
    growth: tuple[Growth, ...]


def list_state(lakehouse: Lakehouse, job: str) -> list[ListedGeneration]:
    """The generations of a job, oldest first, then its branches.

    Raises:
        KeyfoldError: the job has none.
    """
    return [_listed(job, one.generation, one.role) for one in generations_of(lakehouse, job)]


def state_statistics(lakehouse: Lakehouse, rows: StateRows, last: int = 20) -> StateStatistics:
    """Count a state, group by group, on workers; columns other than the key's and the timers' are not decoded.

    Args:
        lakehouse: where the job is.
        rows: of the job's state, with no keys picked out.
        last: of how many batches to tell the growth.

    Raises:
        KeyfoldError: the state is damaged.

    Example:
        >>> state_statistics(lakehouse, read_state(spark, lakehouse, "ride_summaries")).skew  # doctest: +SKIP
    """
    generation = find_generation(lakehouse, rows.job, rows.generation)
    kinds = [column for column in (DEADLINE, STALE_AT) if column in rows.schema.names]
    groups, due = _told(rows, kinds)
    used = [group["rows"] for group in groups]
    largest = sorted(groups, key=lambda group: (-group["rows"], group["key_group"]))
    return StateStatistics(
        job=rows.job,
        generation=rows.generation,
        batch=rows.batch,
        rows=sum(used),
        keys=sum(group["keys"] for group in groups),
        bytes=sum(group["bytes"] for group in groups),
        key_groups=generation.record["fixed"]["key_groups"],
        groups_used=len(used),
        largest_group=max(used, default=0),
        skew=round(max(used) * len(used) / sum(used), 2) if used else 0.0,
        largest=tuple({name: group[name] for name in ("key_group", "rows", "keys", "bytes")} for group in largest[:5]),
        timers={kind: _timers(groups, due, rows.key, kind) for kind in kinds},
        watermark=watermark(generation),
        growth=_growth(generation, last),
    )


def _told(rows: StateRows, kinds: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A row a key group, and the rows that are due next of each."""
    spans = [pa.field(f"{what} {kind}", pa.int64()) for kind in kinds for what in ("first", "last")]
    counts = [pa.field(name, pa.int64()) for name in ("rows", "keys", "bytes", *(f"rows {kind}" for kind in kinds))]
    schema = pa.schema([pa.field("key_group", pa.int32()), *counts, *spans, pa.field("due", pa.binary())])
    groups = [row.asDict() for row in rows.collect_from_blobs(_counting(rows.where, rows.key, kinds, schema), schema)]
    due = [one for group in groups for one in pl.read_ipc(io.BytesIO(group["due"])).to_dicts()]
    return groups, due


def _counting(
    where: str, key: tuple[str, ...], kinds: list[str], schema: pa.Schema
) -> Callable[[Iterator[Blob]], Iterator[pa.RecordBatch]]:
    """Make the function that tells of each key group's blob in a row."""
    columns = list(dict.fromkeys([*key, *kinds]))

    def count(group: int, payload: Any) -> dict[str, Any]:
        rows = decode_group(where, group, payload, columns)
        told: dict[str, Any] = {
            "key_group": group,
            "rows": rows.height,
            "keys": rows.select(pl.struct(key).n_unique()).item() if rows.height else 0,
            "bytes": len(payload),
        }
        due = [rows.head(0).select(*key, kind=pl.lit(None, pl.String), at=pl.lit(None, pl.Int64))]
        for kind in kinds:
            timed = rows.select(*key, kind=pl.lit(kind), at=pl.col(kind).to_physical()).drop_nulls("at")
            told |= {
                f"rows {kind}": timed.height,
                f"first {kind}": timed["at"].min(),
                f"last {kind}": timed["at"].max(),
            }
            # The first few of each group: those of all are among them.
            due.append(timed.bottom_k(_TIMERS_SHOWN, by="at"))
        buffer = io.BytesIO()
        # As a blob, since keys may be of any type: the report's columns are the same for every job.
        pl.concat(due).write_ipc(buffer)
        return {**told, "due": buffer.getvalue()}

    def work(blobs: Iterator[Blob]) -> Iterator[pa.RecordBatch]:
        for blob in blobs:
            yield pa.RecordBatch.from_pylist([count(*blob)], schema=schema)

    return work


def _timers(groups: list[dict[str, Any]], due: list[dict[str, Any]], key: tuple[str, ...], kind: str) -> Timers:
    firsts = [group[f"first {kind}"] for group in groups if group[f"first {kind}"] is not None]
    lasts = [group[f"last {kind}"] for group in groups if group[f"last {kind}"] is not None]
    order = sorted((one for one in due if one["kind"] == kind), key=lambda one: (one["at"], str(one)))
    shown = ({**{column: one[column] for column in key}, kind: from_micros(one["at"])} for one in order[:_TIMERS_SHOWN])
    return Timers(
        rows=sum(group[f"rows {kind}"] for group in groups),
        first=from_micros(min(firsts)) if firsts else None,
        last=from_micros(max(lasts)) if lasts else None,
        next=tuple(shown),
    )


def _growth(generation: Generation, last: int) -> tuple[Growth, ...]:
    retained = set(retained_batches(generation))
    return tuple(
        Growth(
            done.batch,
            done.finished_at,
            done.open_events,
            state_bytes(generation, done.batch) if done.batch in retained else None,
        )
        for done in generation.journal.recent(last)
    )


def _listed(job: str, generation: Generation, role: Role) -> ListedGeneration:
    retained, done = retained_batches(generation), generation.journal.last_done()
    born = generation.record.get("fixed", {})
    return ListedGeneration(
        job=job,
        generation=generation.name,
        role=role,
        born_at=generation.record.get("born_at", ""),
        key=tuple(born.get("key", ())),
        key_groups=born.get("key_groups", 0),
        schema_version=born.get("schema_version", 0),
        retained=tuple(retained),
        watermark=watermark(generation),
        open_events=done.open_events if done else 0,
        bytes=state_bytes(generation, retained[-1]) if retained else 0,
    )
