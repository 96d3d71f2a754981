"""Declare a table of another job as an input, and the columns of changes of upsert tables."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from keyfold.columns import column, made_of, required
from keyfold.errors import Misconfigured
from keyfold.stream import TIMESTAMP

if TYPE_CHECKING:
    from keyfold.keyed.job.contract import KeyedJob


CHANGED_AT, CHANGE, IS_NEW = "changed_at", "change", "is_new"
"""Columns of a table of changes, besides those of the rows before and after (`schema_of_changes`)."""


def name_of_changes(table: str) -> str:
    """Return the name of the table with an upsert table's changes."""
    return f"changes.{table}"


def before(name: str) -> str:
    """Return the column of a table of changes with the value before the change."""
    return f"{name}_before"


def schema_of_changes(schema: pa.Schema, key: Collection[str], known: Collection[str] = ()) -> pa.Schema:
    """Return the columns of an upsert table's changes.

    Args:
        schema, key: columns and key of the upsert table.
        known: columns of the job's inputs. A column without declared lineage depends on the known column of its name.

    Example:
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> schema_of_changes(pa.schema([user, ("clicks", pa.int64())]), ("user",)).names
        ['user', 'clicks', 'clicks_before', 'is_new', 'changed_at', 'change']
    """

    def sources(field_: pa.Field) -> tuple[str, ...]:
        return made_of(field_) or ((field_.name,) if field_.name in known else ())

    of_key = tuple(dict.fromkeys(source for name in key for source in sources(schema.field(name))))
    olds = [
        column(before(one.name), one.type, f"`{one.name}` before the change; NULL of a new key", made_of=sources(one))
        for one in schema
        if one.name not in key
    ]
    return pa.schema(
        [
            *schema,
            *olds,
            required(IS_NEW, pa.bool_(), "Whether the key had no row before", made_of=of_key),
            required(CHANGED_AT, TIMESTAMP, "Watermark of the batch (UTC)", made_of=of_key),
            required(CHANGE, pa.int64(), "Number of the batch; a key changes once in it", made_of=of_key),
        ]
    )


@dataclass(frozen=True)
class JobTable:
    """A table of another job as an input (`Input`): an append table, or the changes of an upsert table.

    The watermark of such an input is the producer's watermark less `Input.watermark_delay`. So event time advances also when
    the producer writes no rows. Rows further behind the producer's watermark than that delay are late.

    Attributes:
        job: name of the producer.
        name: name of the table.
        schema: its columns.
        private: its private columns.
        are_changes: whether it has the changes of an upsert table, whose times are the producer's watermarks.

    Example:
        >>> from keyfold import build_job
        >>> from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
        >>> JobTable.of(build_job(RIDE_SUMMARIES)).job
        'ride_summaries'
    """

    job: str
    name: str
    schema: pa.Schema
    private: tuple[str, ...] = ()
    are_changes: bool = False
    # As a `Stream` has it: no row of a job's table has its arrival for a time.
    missing_time: Literal["quarantine"] = field(init=False, default="quarantine")

    @property
    def event_schema(self) -> pa.Schema:
        """Its columns; a `Stream` has a property of the same name."""
        return self.schema

    @classmethod
    def of(cls, job: "KeyedJob", table: str = "") -> "JobTable":
        """Return a table of a job; its main table by default.

        Raises:
            Misconfigured: the job has no such table, or it is updated in place.

        Example:
            >>> from keyfold import build_job
            >>> from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
            >>> JobTable.of(build_job(RIDE_SUMMARIES), "long_rides").name
            'long_rides'
        """
        tables = {one.name: one for one in job.tables}
        chosen = tables.get(table or job.name)
        if chosen is None:
            raise Misconfigured(f"job {job.name} has no table {table}; it has {', '.join(tables)}")
        if chosen.mode != "append":
            raise Misconfigured(
                f"table {chosen.name} of job {job.name} is updated in place, and an input is read by what is added to it; read "
                "its changes (`JobTable.changes_of`), or an append table of the job"
            )
        changes = {name_of_changes(one.name) for one in job.tables if one.changes}
        private = tuple(sorted(job.private_of(chosen.schema)))
        return cls(job.name, chosen.name, chosen.schema, private, chosen.name in changes)

    @classmethod
    def changes_of(cls, job: "KeyedJob", table: str = "") -> "JobTable":
        """Return the changes of an upsert table of a job, by default of its main table: a row for each key and batch.

        A row has the upsert table's columns after the change, `<column>_before` for each column that is not in the key,
        `is_new` (the key had no row), `changed_at` (the watermark of the batch: the input's event time) and `change` (the
        number of the batch). The last change of a key has the greatest `change`.

        Raises:
            Misconfigured: the job has no such table, it is no upsert table, or it does not keep its changes.

        Example:
            >>> time, user = pa.timestamp("us", "UTC"), pa.field("user", pa.string(), nullable=False)
            >>> from datetime import timedelta
            >>> from keyfold import KeyedJob, Step, Stream
            >>> click, total = pa.schema([user, ("at", time)]), pa.schema([user, ("clicks", pa.int64())])
            >>> job = KeyedJob(
            ...     "totals", Stream("clicks", click, "at"), ("user",), "at", timedelta(0), click, total, total,
            ...     lambda state, events, clock: Step(), output_mode="upsert", output_key=("user",), output_changes=True,
            ... )
            >>> JobTable.changes_of(job).name
            'changes.totals'
        """
        chosen = {one.name: one for one in job.tables}.get(table or job.name)
        if chosen is None or not chosen.changes:
            what = "has no such table" if chosen is None else "keeps no changes of it"
            raise Misconfigured(
                f"job {job.name} {what}: {table or job.name}; declare an upsert table with `OutputTable(changes=True)`, or the "
                "job's own with `output_changes=True`"
            )
        return cls.of(job, name_of_changes(chosen.name))
