"""Build the assets of a keyed job: one step runs the job and reports its tables."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from keyfold import runs
from keyfold.dagster.assets.keyed_config import config_for, live_values
from keyfold.dagster.assets.metadata import (
    batch_metadata,
    column_lineage,
    column_schema,
    is_written,
    last_materialization,
    table_metadata,
    warning_metadata,
)
from keyfold.dagster.assets.previews import explain_metadata, open_state_metadata, preview
from keyfold.dagster.assets.shown import JobAssets, Plot
from keyfold.dagster.automation.schedules import FRESH, on_checked_events
from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.maintenance import maintain_job
from keyfold.dagster.partitions.backfill import Span, asked_span, check_can_reprocess, reprocess_partitions
from keyfold.dagster.partitions.reports import PartitionReports, partition_reports
from keyfold.dagster.plots import in_one_entry, plot_runs, try_plot
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.run_config import plain_fields
from keyfold.dagster.run_reports import is_left_to_continuous_run, report_materialization, report_observation
from keyfold.dagster.table_inputs import PARTITIONED_BY
from keyfold.dagster.translator import DEFAULT, JOB_TAG, KeyfoldTranslator, described
from keyfold.journal.records import Progress
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job_run import RunOptions
from keyfold.keyed.written_files import last_batch
from keyfold.lakehouse import Lakehouse
from keyfold.runs.jobs import refuse_to_forget
from keyfold.validation import validated


def keyed_assets(
    shown: JobAssets, translator: KeyfoldTranslator = DEFAULT, *, late_asset: bool = False
) -> dg.AssetsDefinition:
    """Build an asset for every table of a job; one step runs the job and reports all of them.

    Args:
        shown: the job.
        translator: names and describes the assets.
        late_asset: whether the table of late events is an asset, also where `shown` does not ask for it.
    """
    declared = shown.job
    config_type = config_for(declared)
    has_late_asset = late_asset or shown.late_asset
    tables = [table for table in declared.tables if has_late_asset or table.name != declared.late_table]

    @dg.multi_asset(
        name=declared.name,
        specs=[_spec(shown, table, translator) for table in tables],
        # All tables are written in any case; so that Dagster does not ask for the other ones.
        can_subset=True,
        config_schema=plain_fields(config_type),
        pool=f"job_{declared.name}",
        op_tags={"dagster/priority": str(shown.priority)},
        # Adjacent partitions are reprocessed at once.
        backfill_policy=None if shown.partitions is None else dg.BackfillPolicy.single_run(),
        description=declared.description,
    )
    @fails_with_message
    def run_keyed_job(
        context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.MaterializeResult | dg.Output[None]]:
        lakehouse = keyfold.lakehouse
        if is_left_to_continuous_run(context, lakehouse.job(declared.name)):
            _report_partitions(context, lakehouse, configured_job(lakehouse, declared), shown, translator)
            maintain_job(context, lakehouse, declared, translator)
            return

        def log_batch(progress: Progress, counts: Counts) -> None:
            rows = ", ".join(f"{count:,} {name}" for name, count in counts.rows.items() if count) or "none"
            context.log.info(f"{progress.describe()}: {counts.events:,} events; rows: {rows}")

        config = validated(config_type, context.op_execution_context.op_config, f"ops: {declared.name}", quotes=False)
        mode = config.run_mode()
        if isinstance(mode, FullRefresh):
            refuse_to_forget(lakehouse, declared, config.given())
        job = configured_job(lakehouse, declared, mode, config.given())
        asked = asked_span(context, translator.get_asset_key(job.name))
        if asked is not None and shown.partitions is not None:
            check_can_reprocess(lakehouse, job, shown.partitions)
        summary = runs.run(lakehouse, job, mode, options=RunOptions(on_batch=log_batch), runners=keyfold.runners)
        if asked is not None and shown.partitions is not None and not isinstance(mode, FullRefresh):
            reprocess_partitions(context, lakehouse, job, shown.partitions, asked, keyfold.runners)
        for warning in summary.warnings:
            context.log.warning(warning)
        batch = last_batch(lakehouse, job.name)
        for name in [table.name for table in tables]:
            (table,) = (table for table in job.tables if table.name == name)
            reports = PartitionReports()
            if name == job.name:
                reports = _report_partitions(context, lakehouse, job, shown, translator, asked)
            key = translator.get_asset_key(name)
            before = last_materialization(context.instance, key)
            written = batch_metadata(
                summary.generation, batch, summary.totals.events, summary.totals.rows.get(name, 0), before
            )
            metadata = {
                **_run_metadata(job, table, summary),
                **table_metadata(lakehouse.table(name)),
                # Dagster's pages read the lineage from the materialization, not from the definition.
                "dagster/column_lineage": dg.MetadataValue.column_lineage(column_lineage(job, table, translator)),
                **reports.metadata,
                **written,
            }
            # A materialization of a run of partitions would be one of each of them.
            if (name == job.name and asked is not None) or not (is_written(written, before) or reports.events):
                yield from report_observation(context, key, metadata)
                continue
            rows = _shown_rows(context, lakehouse, job, table, shown.plot)
            first = {name: value for name, value in metadata.items() if name in _FIRST}
            yield from report_materialization(
                context, key, {**first, **rows, **metadata}, has_partitions=shown.partitions is not None
            )
        maintain_job(context, lakehouse, declared, translator)

    return run_keyed_job


def _report_partitions(
    context: dg.AssetExecutionContext,
    lakehouse: Lakehouse,
    job: KeyedJob,
    shown: JobAssets,
    translator: KeyfoldTranslator,
    asked: Span | None = None,
) -> PartitionReports:
    """Report the partitions of the main table that are complete or have changed, and return what was reported."""
    if shown.partitions is None:
        return PartitionReports()
    asset = translator.get_asset_key(job.name)
    reports = partition_reports(context.instance, asset, lakehouse, job, shown.partitions, asked=asked)
    for event in reports.events:
        context.log_event(event)
    return reports


def _spec(shown: JobAssets, table: OutputTable, translator: KeyfoldTranslator) -> dg.AssetSpec:
    job, key = shown.job, translator.get_asset_key
    inputs = [key(name) for name in dict.fromkeys(input_.table for input_ in job.inputs.values())]
    partitions = shown.partitions if table.name == job.name else None
    is_side = table.name not in (job.name, job.late_table)
    # The lineage is reported with each materialization; a wrong one must fail when definitions load.
    column_lineage(job, table, translator)
    return described(
        translator,
        dg.AssetSpec(
            key(table.name),
            deps=[key(job.name)] if is_side else inputs,
            description=job.description if table.name == job.name else table.description,
            kinds={"pyspark", "deltalake"},
            # A run that leaves the job to a continuous one writes none.
            skippable=True,
            owners=list(shown.owners),
            tags={JOB_TAG: job.name},
            automation_condition=on_checked_events(),
            partitions_def=partitions.definition if partitions else None,
            freshness_policy=FRESH if table.name == job.name else None,
            metadata={
                "dagster/table_name": table.name,
                "dagster/column_schema": column_schema(table.schema, table.key),
                **({PARTITIONED_BY: partitions.column} if partitions else {}),
            },
        ),
    )


def _run_metadata(job: KeyedJob, table: OutputTable, summary: "runs.JobRun") -> dict[str, Any]:
    """Return what a run did: the numbers that Dagster plots first, and of the main table alone what is not of a single table."""
    rows = {"rows_out": summary.counts.rows.get(table.name, 0)}
    sent = {
        name: value
        for published in summary.published
        if published.table == table.name
        for name, value in (("topic", published.topic), ("rows_to_topic", f"{published.rows:,}"))
    }
    if table.name != job.name:
        return {**rows, **sent}
    return {
        **({"watermark": dg.MetadataValue.timestamp(summary.watermark)} if summary.watermark else {}),
        **rows,
        "events_in": summary.counts.events,
        "late": summary.counts.rows.get(job.late_table, 0),
        "open_events": summary.totals.open_events,
        **sent,
        **warning_metadata(summary.warnings),
        **live_values(job),
        "mode": summary.mode,
        **({"runner": summary.runner} if summary.runner else {}),
        "batch_seconds": " ".join(f"{seconds:.2f}" for seconds in summary.batch_seconds),
        "seconds": f"{summary.seconds:.2f}",
    }


_FIRST = ("watermark", "rows_out", "events_in", "late", "open_events", "topic", "rows_to_topic", "warnings")
"""What Dagster's page begins with; then plots and previews, and everything else."""


def _shown_rows(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, job: KeyedJob, table: OutputTable, plot: Plot | None
) -> dict[str, Any]:
    """Return plots, a preview of the table and, for the main table, of the open state."""
    shown_rows = preview(lakehouse.table(table.name), job.private_of(table.schema))
    if table.name != job.name:
        return {"preview": shown_rows}
    plots = dict(try_plot(context.log, lambda: plot_runs(lakehouse, job.name)))
    # A plot shows keys and values.
    may_draw = not any(job.private_of(table.schema) for table in job.tables)
    plots |= try_plot(context.log, lambda: plot(lakehouse)) if plot and may_draw else {}
    return {
        **in_one_entry(plots),
        "preview": shown_rows,
        **explain_metadata(lakehouse, job),
        **open_state_metadata(context.log, lakehouse, job),
    }
