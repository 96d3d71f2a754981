"""The table of a job as what another job reads."""

from typing import ClassVar, Literal

import pyarrow as pa

from keyfold.schemas import to_names
from keyfold.stream.refined import Refinable
from keyfold.validation import argument, declaration


@declaration("table {name}")
class JobTable(Refinable):
    """A table of another job as an input (`Input`), made by `KeyedJob.table` or `KeyedJob.changes`.

    The watermark of such an input is the producer's watermark less `Input.delay`. So event time advances also when the
    producer writes no rows. Rows further behind the producer's watermark than that delay are late.

    Attributes:
        job: name of the producer.
        name: name of the table.
        schema: its columns.
        private: its private columns.
        are_changes: whether it has the changes of an upsert table, whose times are the producer's watermarks.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> RIDE_SUMMARIES.table("long_rides").job
        'ride_summaries'
    """

    job: str
    name: str
    schema: pa.Schema
    private: tuple[str, ...] = argument(converter=to_names, default=())
    are_changes: bool = False
    # As a `Stream` has them: no row of a job's table has its arrival for a time.
    missing_time: ClassVar[Literal["quarantine"]] = "quarantine"
    event_time: ClassVar[str] = ""  # type: ignore[misc]

    @property
    def event_schema(self) -> pa.Schema:
        """Its columns; a `Stream` has a property of the same name."""
        return self.schema
