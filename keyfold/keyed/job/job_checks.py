"""Check the declaration of a job when it is made, before any run."""

from datetime import timedelta
from typing import TYPE_CHECKING

from keyfold.errors import Misconfigured
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.keyed.job.column_checks import require_columns, require_not_null, require_timestamp
from keyfold.keyed.job.job_tables import JobTable
from keyfold.keyed.job.several_inputs import check_condition
from keyfold.keyed.rows.hashing import check_hashable
from keyfold.stream import Stream

if TYPE_CHECKING:
    from keyfold.keyed.job.contract import KeyedJob


def check_job(job: "KeyedJob") -> None:
    """Check that the columns and settings of a job fit together.

    Raises:
        Misconfigured: they do not; names the setting.
    """
    where = f"job {job.name}"
    if not isinstance(job.stream, Stream | JobTable):
        raise Misconfigured(f"{where}: stream is {job.stream!r}; it must be the Stream itself, and not its name")
    if not job.key:
        raise Misconfigured(f"{where}: key needs at least one column")
    require_columns(f"{where}: events", (*job.key, job.event_time), job.events)
    require_columns(f"{where}: state", job.key, job.state)
    require_columns(f"{where}: events (derived)", tuple(job.derived), job.events)
    require_not_null(f"{where}: key", job.key, job.events)
    # When the job is made, and not by a worker during a run.
    check_hashable(f"{where}: key", job.key, job.events)
    if job.event_time in job.derived:
        raise Misconfigured(f"{where}: event_time {job.event_time} is derived; it must be a column of the event table")
    if job.keys_of is not None and (job.keys_of.column not in job.key or job.keys_of.column in job.derived):
        raise Misconfigured(
            f"{where}: keys_of is of {job.keys_of.column}; it must be of a column of the key, "
            f"{', '.join(job.key)}, that is not derived"
        )
    if job.where is not None:
        check_condition(where, job.all_inputs[job.stream.name])
    if not 1 <= job.key_groups <= 32_768:
        raise Misconfigured(f"{where}: key_groups is {job.key_groups}; it must be 1 to 32768")
    if job.watermark_delay < timedelta(0):
        raise Misconfigured(f"{where}: watermark_delay is negative")
    require_timestamp(f"{where}: events", job.event_time, job.events)
    for column in (DEADLINE, STALE_AT):
        if column in job.state.names:
            require_timestamp(f"{where}: state", column, job.state)
    if job.waiting is not None:
        require_columns(f"{where}: state (waiting)", tuple(job.waiting.rows.meta.root_names()), job.state)
        if job.inputs:
            raise Misconfigured(f"{where}: waiting is for a job with one input")
    names = [table.name for table in job.tables]
    if len(set(names)) != len(names):
        raise Misconfigured(f"{where}: two of its tables have one name: {', '.join(names)}")
