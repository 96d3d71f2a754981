"""Build the nightly job that compacts the tables of a group and deletes files that are no longer needed, and the weekly check.

They need no Spark. Each op holds the pool of the step that writes its tables, so that the two never run at once. A job that
runs from the command line holds no pool; its tables are skipped until the next night. `keyfold.maintenance` decides which
files can be deleted.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import dagster as dg
from pydantic import Field

from keyfold.dagster.assets.metadata import table_key
from keyfold.dagster.automation.starts import schedule_of
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.going_live import finish_going_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse, exclusive, is_table
from keyfold.maintenance import RETENTION, Maintained, MaintainedTable, maintain
from keyfold.maintenance.checking import check
from keyfold.maintenance.one_table import remember_removals
from keyfold.maintenance.recording import record_ingest, trim_log
from keyfold.runs.table_maintenance import tables_of_generation, tables_of_ingest
from keyfold.stream import Stream

_SHOWN = 20
"""Faults in the message of a failed check; its log has all."""


class MaintenanceConfig(dg.Config):
    """Run config of maintenance."""

    retention_days: float = Field(
        default=RETENTION / timedelta(days=1),
        ge=1,
        description="Days to keep files that a table has replaced; longer while a keyed job has yet to read them. "
        "Time travel reaches back this far.",
    )


def maintenance(
    group: str, *, streams: Sequence[Stream] = (), jobs: Sequence[KeyedJob] = ()
) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """Build the job `maintain_<group>` and its schedule, stopped by default; times are UTC.

    Each group has its own job, since a run waits until all its pools are free.
    """
    ops = [*(_stream_op(stream) for stream in streams), *(_job_op(declared) for declared in jobs)]

    @dg.job(name=f"maintain_{group}", description=f"Compacts all tables of {group} and deletes old files.")
    def maintain_group() -> None:
        for op in ops:
            op()

    return maintain_group, schedule_of(maintain_group, "30 3 * * *")


def lakehouse_check() -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """Build the job `check_lakehouse` and its schedule, stopped by default; times are UTC."""

    @dg.op(out=dg.Out(dg.Nothing))
    def verify_every_file(context: dg.OpExecutionContext, lakehouse: dg.ResourceParam[Lakehouse]) -> None:
        found = check(lakehouse)
        *faults, summary = found.describe()
        for fault in faults:
            context.log.warning(fault)
        context.log.info(summary)
        if not found.is_whole:
            raise dg.Failure(
                description="; ".join([summary, *faults[:_SHOWN]]),
                metadata={"damaged": [one.path for one in found.findings if one.is_damage]},
                allow_retries=False,
            )

    @dg.job(name="check_lakehouse", description="Reads every file of the lakehouse and reports damaged ones.")
    def check_lakehouse() -> None:
        verify_every_file()

    return check_lakehouse, schedule_of(check_lakehouse, "30 5 * * 0")


def _stream_op(stream: Stream) -> dg.OpDefinition:
    @dg.op(name=f"maintain_{stream.name}_events", pool=f"stream_{stream.name}", out=dg.Out(dg.Nothing))
    def maintain_stream(
        context: dg.OpExecutionContext, config: MaintenanceConfig, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> None:
        tables = tables_of_ingest(lakehouse, stream)
        # A continuous ingest keeps the lock, and records removals itself.
        if is_table(lakehouse.events(stream.name)):
            with suppress(KeyfoldError), exclusive(lakehouse.ingest(stream.name), f"maintenance of {stream.name}"):
                _remember(config, tables)
        # Without the lock: ingest only appends, which does not conflict with compaction.
        try:
            _maintain(context, config, lakehouse, tables)
        finally:
            record_ingest(lakehouse, stream.name)

    return maintain_stream


def _job_op(declared: KeyedJob) -> dg.OpDefinition:
    @dg.op(name=f"maintain_{declared.name}_tables", pool=f"job_{declared.name}", out=dg.Out(dg.Nothing))
    def maintain_job(
        context: dg.OpExecutionContext, config: MaintenanceConfig, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> None:
        if live_generation(lakehouse, declared.name) is None:
            context.log.info(f"job {declared.name} has not run yet")
            return
        try:
            with exclusive(lakehouse.job(declared.name), f"job {declared.name}"):
                finish_going_live(lakehouse, declared.name)
                # Read again under the lock: a full refresh may have replaced the generation.
                generation = live_generation(lakehouse, declared.name)
                if generation is None:
                    return
                tables = tables_of_generation(generation)
                try:
                    _remember(config, tables)
                    _maintain(context, config, lakehouse, tables)
                # Also after a failure: the tables that were maintained before it have new files.
                finally:
                    generation.record_checksums()
        # A run from the command line holds the lock: skip its tables, and maintain the others.
        except KeyfoldError as busy:
            context.log.warning(f"the tables of {declared.name} are skipped this time: {busy}")

    return maintain_job


def _remember(config: MaintenanceConfig, tables: Sequence[MaintainedTable]) -> None:
    for table in tables:
        if is_table(table.path):
            remember_removals(table.path, timedelta(days=config.retention_days))


def _maintain(
    context: dg.OpExecutionContext, config: MaintenanceConfig, lakehouse: Lakehouse, tables: Sequence[MaintainedTable]
) -> None:
    for table in tables:
        name = table.name
        if not is_table(table.path):
            context.log.info(f"{name} does not exist yet")
            continue
        done = maintain(lakehouse, table, timedelta(days=config.retention_days))
        try:
            trim_log(lakehouse, name, table.path)
        except KeyfoldError as error:
            context.log.warning(f"{name}: no log entry was deleted: {error}")
        if done.not_deleted:
            context.log.warning(f"{name}: no file was deleted: {done.not_deleted}")
        if done.kept_for:
            days = done.retention / timedelta(days=1)
            context.log.warning(
                f"{name}: files of the last {days:.1f} days are kept, since {done.kept_for} has yet to read them"
            )
        context.log.info(f"{name}: {done.files_before} files became {done.files_after}; {done.deleted} deleted")
        # Not a materialization, which would start downstream assets.
        context.log_event(dg.AssetObservation(table_key(name), metadata=_metadata(done)))


def _metadata(done: Maintained) -> dict[str, int | float | str]:
    return {
        "files_before": done.files_before,
        "files_after": done.files_after,
        "bytes_on_disk_before": done.bytes_before,
        "bytes_on_disk_after": done.bytes_after,
        "files_deleted": done.deleted,
        "retention_days": round(done.retention / timedelta(days=1), 2),
        **({"kept_for": done.kept_for} if done.kept_for else {}),
        **({"not_deleted_because": done.not_deleted} if done.not_deleted else {}),
    }
