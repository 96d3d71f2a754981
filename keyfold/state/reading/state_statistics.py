"""List states, and compute statistics of one: size, distribution over key groups, timers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from keyfold.keyed.calling.slots import SLOT, key_groups_of
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.job_run import watermark
from keyfold.keyed.rows.codec import empty
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.reader import Role, find_generation, generations_of, retained_batches
from keyfold.state.reading.state_rows import StateRows

_TIMERS_SHOWN = 5


@dataclass(frozen=True)
class ListedGeneration:
    """A generation in a list, from its records; no state is read.

    Attributes:
        job, generation: names of the job and the generation.
        role: `live`, `kept` or `branch`.
        created_at: when it was created, ISO 8601.
        key, key_groups, schema_version: settings in its birth record.
        retained: batches whose state is retained.
        watermark: its watermark; None before any event.
        open_events: events in its state, by the journal.
        bytes: size of the state after the last batch, compressed.
    """

    job: str
    generation: str
    role: Role
    created_at: str
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
    return [_listed(job, described.generation, described.role) for described in generations_of(lakehouse, job)]


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
    record, used = None if rows.batch is None else generation.journal.done(rows.batch), groups["rows"].to_list()
    return StateStatistics(
        job=rows.job,
        generation=rows.generation,
        batch=rows.batch,
        rows=sum(used),
        keys=sum(groups["keys"].to_list()),
        bytes=record.state_bytes if record else 0,
        key_groups=generation.record.declaration.key_groups,
        groups_used=len(used),
        largest_group=max(used, default=0),
        skew=round(max(used) * len(used) / sum(used), 2) if used else 0.0,
        timers={kind: _timers(groups, due, kind) for kind in kinds},
        watermark=watermark(generation),
    )


def _counted(rows: StateRows, kinds: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count by key group; returns a row for each key group, and the rows that are due next."""
    key = list(rows.key)

    def count(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        groups = pl.Series("key_group", key_groups_of(rows[SLOT].to_numpy()).astype("int32"))
        counted = rows.group_by(groups).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            pl.struct(key).n_unique().cast(pl.Int64).alias("keys"),
            *(pl.col(kind).count().cast(pl.Int64).alias(f"rows {kind}") for kind in kinds),
            *(pl.col(kind).min().alias(f"first {kind}") for kind in kinds),
            *(pl.col(kind).max().alias(f"last {kind}") for kind in kinds),
        )
        # The first timers of the state are among the first ones of the frames.
        due = [rows.select(*key, kind).drop_nulls(kind).bottom_k(_TIMERS_SHOWN, by=kind) for kind in kinds]
        return counted, pl.concat([rows.clear().select(*key), *due], how="diagonal")

    frames = list(rows.map_slots(count, list(dict.fromkeys([*key, *kinds]))))
    frames = frames or [count(empty(rows.schema).with_columns(pl.lit(0, pl.UInt64).alias(SLOT)))]
    # Two frames may have different keys of the same key group.
    groups = pl.concat([groups for groups, _ in frames]).group_by("key_group").agg(
        pl.col("rows", "keys", *(f"rows {kind}" for kind in kinds)).sum(),
        *(pl.col(f"first {kind}").min() for kind in kinds),
        *(pl.col(f"last {kind}").max() for kind in kinds),
    )  # fmt: skip
    return groups, pl.concat([due for _, due in frames])


def _timers(groups: pl.DataFrame, due: pl.DataFrame, kind: str) -> Timers:
    key = [name for name in due.columns if name not in (DEADLINE, PROCESSING_DEADLINE)]
    shown = due.select(*key, kind).drop_nulls(kind).sort(kind, *key).head(_TIMERS_SHOWN)
    first, last = (groups[f"{end} {kind}"] for end in ("first", "last"))
    return Timers(sum(groups[f"rows {kind}"].to_list()), first.min(), last.max(), tuple(shown.to_dicts()))  # type: ignore[arg-type]


def _listed(job: str, generation: Generation, role: Role) -> ListedGeneration:
    retained, last = retained_batches(generation), generation.journal.last_done()
    declared = generation.record.declaration
    return ListedGeneration(
        job=job,
        generation=generation.name,
        role=role,
        created_at=generation.record.created_at.isoformat(),
        key=declared.key,
        key_groups=declared.key_groups,
        schema_version=declared.state.version,
        retained=tuple(retained),
        watermark=watermark(generation),
        open_events=last.open_events if last else 0,
        bytes=last.state_bytes if last else 0,
    )
