"""Compact the tables of a step and delete files that are no longer needed, after its work.

A run with the tag `keyfold/maintain`, such as that of a group's schedule by night, does so: each step still holds the pool of its tables,
so that no other run writes them. It needs no Spark. `keyfold.maintenance` decides which files can be deleted.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import dagster as dg

from keyfold.dagster.translator import KeyfoldTranslator
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.going_live import finish_going_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.maintenance import Maintained, MaintainedTable, maintain
from keyfold.maintenance.log_trimming import trim_log
from keyfold.maintenance.one_table import remember_removals
from keyfold.runs.table_maintenance import tables_of_generation, tables_of_ingest
from keyfold.stream import Stream

MAINTAIN_TAG = "keyfold/maintain"
"""Tag of runs that maintain the tables that they write: days to keep files that a table has replaced, such as `7`; longer while
a keyed job has yet to read them. Time travel reaches back this far."""


def maintain_stream(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, stream: Stream, translator: KeyfoldTranslator
) -> None:
    """Maintain the tables of ingest, if the run is to."""
    retention = _retention(context)
    if retention is None:
        return
    tables = tables_of_ingest(lakehouse, stream)
    # A continuous ingest keeps the lock, and records removals itself.
    if is_table(lakehouse.events(stream.name)):
        with suppress(KeyfoldError), lakehouse.ingest(stream.name).exclusive(f"maintenance of {stream.name}"):
            _remember(retention, tables)
    # Without the lock: ingest only appends, which does not conflict with compaction.
    _maintain(context, retention, lakehouse, tables, translator)


def maintain_job(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, declared: KeyedJob, translator: KeyfoldTranslator
) -> None:
    """Maintain the tables of a job's live generation, if the run is to; not while another process holds the job's lock."""
    retention = _retention(context)
    if retention is None or live_generation(lakehouse, declared.name) is None:
        return
    try:
        with lakehouse.job(declared.name).exclusive(f"job {declared.name}"):
            finish_going_live(lakehouse, declared.name)
            # Read again under the lock: a full refresh may have replaced the generation.
            generation = live_generation(lakehouse, declared.name)
            if generation is None:
                return
            tables = tables_of_generation(generation)
            _remember(retention, tables)
            _maintain(context, retention, lakehouse, tables, translator)
    except KeyfoldError as busy:
        context.log.warning(f"the tables of {declared.name} are skipped this time: {busy}")


def _retention(context: dg.AssetExecutionContext) -> timedelta | None:
    """Return how long replaced files are kept; None if the run does not maintain its tables."""
    text = context.run.tags.get(MAINTAIN_TAG)
    if text is None:
        return None
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 1 <= days < 36_500:
        raise Misconfigured(f"the run's tag {MAINTAIN_TAG} is {text!r}; give a number of days, 1 or more, such as 7")
    return timedelta(days=days)


def _remember(retention: timedelta, tables: Sequence[MaintainedTable]) -> None:
    for table in tables:
        if is_table(table.path):
            remember_removals(table.path, retention)


def _maintain(
    context: dg.AssetExecutionContext,
    retention: timedelta,
    lakehouse: Lakehouse,
    tables: Sequence[MaintainedTable],
    translator: KeyfoldTranslator,
) -> None:
    for table in tables:
        name = table.name
        if not is_table(table.path):
            context.log.info(f"{name} does not exist yet")
            continue
        done = maintain(lakehouse, table, retention)
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
        if (key := translator.get_asset_key(name)) in context.assets_def.keys:
            context.log_event(dg.AssetObservation(key, metadata=_metadata(done)))


def _metadata(done: Maintained) -> dict[str, int | float | str]:
    return {
        "files_before": done.files_before,
        "files_after": done.files_after,
        "files_deleted": done.deleted,
        "retention_days": round(done.retention / timedelta(days=1), 2),
        **({"kept_for": done.kept_for} if done.kept_for else {}),
        **({"not_deleted_because": done.not_deleted} if done.not_deleted else {}),
    }
