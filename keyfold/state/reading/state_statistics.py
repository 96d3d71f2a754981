"""List states, and compute statistics of one: size, distribution over key groups, timers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from keyfold.keyed.calling.slots import SLOT, key_groups_of
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.runner import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.reader import Role, find_generation, generations_of, retained_batches
from keyfold.state.reading.state_rows import StateRows
from keyfold.times import from_micros

_TIMERS_SHOWN = 5


@dataclass(frozen=True)
class ListedGeneration:
    """A generation in a list, from its records; no state is read.

    Attributes:
        job, generation: names of the job and the generation.
        role: `live`, `kept` or `branch`.
        born_at: when it was created, ISO 8601.
        key, key_groups, schema_version: settings in its birth record.
        retained: batches whose state is retained.
        watermark: its watermark; None before any event.
        open_events: events in its state, by the journal.
        bytes: size of the state after the last batch, compressed.
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
class Timers:
    """The timers of one kind: number of rows with one, the earliest and the latest, and the keys that are due next."""

    rows: int
    first: datetime | None
    last: datetime | None
    next: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class StateStatistics:
    """Statistics of a job's state after a batch.

    Attributes:
        job, generation, batch: the job, its generation and the batch.
        rows, keys: number of rows and of keys.
        bytes: size of its parts as stored (Parquet, LZ4), with replaced rows that are not compacted yet.
        key_groups: number of key groups of the job; `groups_used` of them have rows.
        largest_group: rows of the largest key group; `skew` is their ratio to the mean of the groups used.
        timers: by column: `deadline` (event time) and `processing_deadline` (processing time), if the job has them.
        watermark: the watermark; deadlines before it are due.
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
    timers: dict[str, Timers]
    watermark: datetime | None


def list_state(lakehouse: Lakehouse, job: str) -> list[ListedGeneration]:
    """List the generations of a job, oldest first, then its branches.

    Raises:
        KeyfoldError: the job has none.
    """
    return [_listed(job, one.generation, one.role) for one in generations_of(lakehouse, job)]


def state_statistics(lakehouse: Lakehouse, rows: StateRows) -> StateStatistics:
    """Compute the statistics of a state from the columns of the key and the timers; no other is read.

    Args:
        rows: rows of the job's state, with all keys.

    Raises:
        KeyfoldError: the state is damaged.

    Example:
        >>> state_statistics(lakehouse, read_state(lakehouse, "ride_summaries")).skew  # doctest: +SKIP
    """
    generation = find_generation(lakehouse, rows.job, rows.generation)
    kinds = [column for column in (DEADLINE, PROCESSING_DEADLINE) if column in rows.schema.names]
    groups, due = _counted(rows, kinds)
    used = [group["rows"] for group in groups]
    done = None if rows.batch is None else generation.journal.done(rows.batch)
    return StateStatistics(
        job=rows.job,
        generation=rows.generation,
        batch=rows.batch,
        rows=sum(used),
        keys=sum(group["keys"] for group in groups),
        bytes=done.state_bytes if done else 0,
        key_groups=generation.record["fixed"]["key_groups"],
        groups_used=len(used),
        largest_group=max(used, default=0),
        skew=round(max(used) * len(used) / sum(used), 2) if used else 0.0,
        timers={kind: _timers(groups, due, rows.key, kind) for kind in kinds},
        watermark=watermark(generation),
    )


def _counted(rows: StateRows, kinds: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Count by key group; returns a row for each key group, and the rows that are due next."""
    key = list(rows.key)
    times = [pl.col(kind).to_physical() for kind in kinds]

    def count(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        groups = pl.Series("key_group", key_groups_of(rows[SLOT].to_numpy()).astype("int32"))
        counted = rows.group_by(groups).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            pl.struct(key).n_unique().cast(pl.Int64).alias("keys"),
            *(time.count().cast(pl.Int64).name.prefix("rows ") for time in times),
            *(time.min().name.prefix("first ") for time in times),
            *(time.max().name.prefix("last ") for time in times),
        )
        due = [rows.clear().select(*key, kind=pl.lit(None, pl.String), at=pl.lit(None, pl.Int64))]
        for kind in kinds:
            timed = rows.select(*key, kind=pl.lit(kind), at=pl.col(kind).to_physical()).drop_nulls("at")
            # The first timers of the state are among the first ones of the frames.
            due.append(timed.bottom_k(_TIMERS_SHOWN, by="at"))
        return counted, pl.concat(due)

    frames = list(rows.map_slots(count, list(dict.fromkeys([*key, *kinds]))))
    if not frames:
        return [], []
    # Two frames may have different keys of the same key group.
    groups = pl.concat([groups for groups, _ in frames]).group_by("key_group").agg(
        pl.col("rows", "keys", *(f"rows {kind}" for kind in kinds)).sum(),
        *(pl.col(f"first {kind}").min() for kind in kinds),
        *(pl.col(f"last {kind}").max() for kind in kinds),
    )  # fmt: skip
    return groups.to_dicts(), pl.concat([due for _, due in frames]).to_dicts()


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
        bytes=done.state_bytes if done else 0,
    )
