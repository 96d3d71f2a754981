"""A table that another job writes, as an input: what a consumer needs to know of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from keyfold.errors import Misconfigured

if TYPE_CHECKING:
    from keyfold.keyed.contract import KeyedJob


@dataclass(frozen=True)
class JobTable:
    """An append table of another job, to be read as an input (`Input`).

    The watermark of such an input is the producer's, less `Input.watermark_delay`, which says how far behind the producer's
    watermark rows may lie: a row further behind is late. So event time goes on where the producer writes nothing.

    Attributes:
        job: the producer's name.
        name: of the table.
        schema: its columns.
        private: those that show what is private of the producer's streams.

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
    missing_time: Literal["quarantine"] = field(init=False, default="quarantine")

    @property
    def event_schema(self) -> pa.Schema:
        """Its columns, under the name that a stream has for them."""
        return self.schema

    @classmethod
    def of(cls, job: "KeyedJob", table: str = "") -> "JobTable":
        """The table of a job, by default its own.

        Raises:
            Misconfigured: the job has no such table, or it is updated in place.

        Example:
            >>> from keyfold import build_job
            >>> from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
            >>> JobTable.of(build_job(RIDE_SUMMARIES), "long_rides").name
            'long_rides'
        """
        tables = {one.name: one for one in job.tables}
        found = tables.get(table or job.name)
        if found is None:
            raise Misconfigured(f"job {job.name} has no table {table}; it has {', '.join(tables)}")
        if found.mode != "append":
            raise Misconfigured(
                f"table {found.name} of job {job.name} is updated in place, and an input is read by what is added to it; read "
                "an append table of the job"
            )
        return cls(job.name, found.name, found.schema, tuple(sorted(job.private_of(found.schema))))
