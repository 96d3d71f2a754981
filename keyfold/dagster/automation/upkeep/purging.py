"""Dagster's own history: runs, their events and logs are deleted when they are old, by a nightly job.

A run of twenty checks leaves 385 kB, for ever if nobody acts. Kept are runs that are not over, those of the last
`KEYFOLD_KEEP_RUNS_DAYS` days, and those whose events are the newest there are of an asset or a check: sensors,
conditions, freshness and the pages read these. Runs of other code locations are theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import sqlalchemy as db
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)

_MOST_RUNS = 5_000
"""Of a night: a history of years is deleted in some nights, not in one that lasts a day."""

_AT_ONCE = 500
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_RUNLESS = ""
"""Dagster's id of the run of events that no run has reported, such as a sensor's of what has landed."""


@dataclass(frozen=True)
class Purged:
    """What was deleted.

    Attributes:
        runs: with their events and logs.
        events: that belonged to no run.
        kept: runs that are old, but whose events are the newest of an asset or a check.
    """

    runs: int
    events: int
    kept: int


def purge(instance: dg.DagsterInstance, keep: timedelta, location: str | None = None) -> Purged:
    """Delete runs that ended longer ago than they are to be kept, and events of no run that are as old.

    Args:
        instance: whose history it is.
        keep: for how long.
        location: whose runs may be deleted, besides those that were started without one.
    """
    before = datetime.now(UTC) - keep
    needed = _needed(instance)
    old = list(_old_runs(instance, before, location))
    runs = [run for run in old if run not in needed][:_MOST_RUNS]
    for run_id in runs:
        _delete(instance, run_id)
    return Purged(len(runs), _delete_runless(instance, before), len(needed.intersection(old)))


def _needed(instance: dg.DagsterInstance) -> set[str]:
    """The runs whose events are the newest of an asset or a check."""
    found = set[str | None]()
    for record in instance.get_asset_records(instance.get_asset_keys()):
        entry = record.asset_entry
        newest = (
            entry.last_materialization_record,
            entry.last_observation_record,
            entry.last_failed_to_materialize_record,
        )
        found |= {entry.last_run_id, *(one.run_id for one in newest if one is not None)}
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        # Of every check there ever was, those of other code locations too, which nobody here could name.
        executions = AssetCheckExecutionsTable.c
        newest = db.select(db.func.max(executions.id)).group_by(executions.asset_key, executions.check_name)
        with storage.index_connection() as connection:
            rows = connection.execute(db.select(executions.run_id).where(executions.id.in_(newest)))
            found |= {row[0] for row in rows}
    return {run_id for run_id in found if run_id}


def _old_runs(instance: dg.DagsterInstance, before: datetime, location: str | None) -> Iterator[str]:
    """The runs that ended before a time, oldest first."""
    ended, cursor = dg.RunsFilter(statuses=_ENDED, updated_before=before), None
    while records := instance.get_run_records(ended, limit=_AT_ONCE, cursor=cursor, ascending=True):
        for record in records:
            origin = record.dagster_run.remote_job_origin
            own = origin.repository_origin.code_location_origin.location_name if origin else None
            # A run of another code location is its to delete; one that was started without any is nobody else's.
            if own in (None, location):
                yield record.dagster_run.run_id
        cursor = records[-1].dagster_run.run_id


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)
    # `delete_run` leaves these behind: logs, the evaluations of checks, the run's own database file.
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.delete().where(AssetCheckExecutionsTable.c.run_id == run_id))
    if isinstance(storage, SqliteEventLogStorage):
        for ending in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + ending).unlink(missing_ok=True)


def _delete_runless(instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete old events of no run, but for the newest of each kind and asset."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0
    events = SqlEventLogStorageTable.c
    newest = db.select(db.func.max(events.id)).group_by(events.asset_key, events.dagster_event_type)
    with storage.index_connection() as connection:
        old = db.select(events.id).where(
            events.run_id == _RUNLESS,
            events.asset_key.is_not(None),
            events.timestamp < before.replace(tzinfo=None),
            events.id.not_in(newest),
        )
        ids = [row[0] for row in connection.execute(old.limit(_MOST_RUNS))]
        # In parts: SQLite takes a bounded number of values in a query.
        for first in range(0, len(ids), _AT_ONCE):
            some = ids[first : first + _AT_ONCE]
            connection.execute(AssetEventTagsTable.delete().where(AssetEventTagsTable.c.event_id.in_(some)))
            connection.execute(SqlEventLogStorageTable.delete().where(events.id.in_(some)))
    return len(ids)
