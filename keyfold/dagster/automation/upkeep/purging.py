"""Delete old runs with their events and logs from Dagster's history.

A run with twenty checks takes 385 kB, and Dagster never deletes it. Kept are unfinished runs, those of the last
`KEYFOLD_KEEP_RUNS_DAYS` days, and those with the newest event of an asset or a check, which sensors, conditions, freshness and
pages read. Runs of other code locations are not touched.
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
"""Limit for one night: a history of years is deleted over several nights."""

_AT_ONCE = 500
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_RUNLESS = ""
"""The run id that Dagster gives to events without a run, such as a sensor's materializations."""


@dataclass(frozen=True)
class Purged:
    """Counts of a purge.

    Attributes:
        runs: number of runs, deleted with their events and logs.
        events: number of deleted events without a run.
        kept: number of old runs kept for the newest event of an asset or a check.
    """

    runs: int
    events: int
    kept: int


def purge(instance: dg.DagsterInstance, keep: timedelta, location: str | None = None) -> Purged:
    """Delete runs that ended longer ago than `keep`, and events without a run that are as old.

    Args:
        keep: how long to keep runs after their end.
        location: the code location whose runs are deleted; runs without a code location are deleted too.
    """
    before = datetime.now(UTC) - keep
    needed = _needed(instance)
    old = list(_old_runs(instance, before, location))
    runs = [run for run in old if run not in needed][:_MOST_RUNS]
    for run_id in runs:
        _delete(instance, run_id)
    return Purged(len(runs), _delete_runless(instance, before), len(needed.intersection(old)))


def _needed(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs with the newest event of an asset or a check."""
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
        # Includes checks of other code locations, which Dagster's own interface cannot list.
        executions = AssetCheckExecutionsTable.c
        newest = db.select(db.func.max(executions.id)).group_by(executions.asset_key, executions.check_name)
        with storage.index_connection() as connection:
            rows = connection.execute(db.select(executions.run_id).where(executions.id.in_(newest)))
            found |= {row[0] for row in rows}
    return {run_id for run_id in found if run_id}


def _old_runs(instance: dg.DagsterInstance, before: datetime, location: str | None) -> Iterator[str]:
    """Yield the runs that ended before a time, oldest first."""
    ended, cursor = dg.RunsFilter(statuses=_ENDED, updated_before=before), None
    while records := instance.get_run_records(ended, limit=_AT_ONCE, cursor=cursor, ascending=True):
        for record in records:
            origin = record.dagster_run.remote_job_origin
            own = origin.repository_origin.code_location_origin.location_name if origin else None
            # Another code location deletes its own runs; runs without a code location are deleted here.
            if own in (None, location):
                yield record.dagster_run.run_id
        cursor = records[-1].dagster_run.run_id


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)
    # `delete_run` does not delete logs, evaluations of checks and the run's own database file.
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.delete().where(AssetCheckExecutionsTable.c.run_id == run_id))
    if isinstance(storage, SqliteEventLogStorage):
        for ending in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + ending).unlink(missing_ok=True)


def _delete_runless(instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete old events without a run, except the newest of each kind and asset."""
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
        # In parts: SQLite limits the number of values in a query.
        for first in range(0, len(ids), _AT_ONCE):
            some = ids[first : first + _AT_ONCE]
            connection.execute(AssetEventTagsTable.delete().where(AssetEventTagsTable.c.event_id.in_(some)))
            connection.execute(SqlEventLogStorageTable.delete().where(events.id.in_(some)))
    return len(ids)
