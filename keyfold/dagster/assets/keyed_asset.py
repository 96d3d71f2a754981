"""Build the assets and the conservation check of a keyed job."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from keyfold import runs
from keyfold.dagster.assets.keyed_config import config_for
from keyfold.dagster.assets.metadata import (
    BATCH,
    EVENTS,
    GENERATION,
    SINCE_BATCH,
    batch_metadata,
    column_lineage,
    column_schema,
    last_materialization,
    table_metadata,
    warning_metadata,
)
from keyfold.dagster.assets.previews import open_state_metadata, preview
from keyfold.dagster.automation.schedules import FRESH, on_checked_events
from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.maintenance import maintain_job
from keyfold.dagster.plots import plot_runs, try_plot
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.run_config import checked, plain_fields
from keyfold.dagster.run_reports import is_left_to_continuous_run
from keyfold.dagster.translator import DEFAULT, JOB_TAG, KeyfoldTranslator, described
from keyfold.errors import counted
from keyfold.journal.records import Progress
from keyfold.keyed.conservation import Conservation, check_conservation, input_differences
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.keyed.written_files import last_batch
from keyfold.lakehouse import Lakehouse
from keyfold.runs.jobs import refuse_to_forget

Plot = Callable[[Lakehouse], Mapping[str, dg.MetadataValue]]


@dataclass(frozen=True)
class JobAssets:
    """A job of a group of assets, and how Dagster shows it.

    Attributes:
        job: the job; the run config sets its parameters.
        plot: draws plots for the main table's metadata (`keyfold.dagster.plots`); not if a table has private columns.
        priority: of the steps that are ready, Dagster starts those with the highest priority first; non-blocking checks have 0.
        owners: people or teams, in Dagster's notation; by default those of the group.
    """

    job: KeyedJob
    plot: Plot | None = None
    priority: int = 1
    owners: Sequence[str] = ()


def keyed_assets(shown: JobAssets, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetsDefinition:
    """Build an asset for every table of a job; one step runs the job and reports all of them.

    Args:
        shown: the job.
        translator: names and describes the assets.
    """
    declared = shown.job
    config_type = config_for(declared)
    key = translator.get_asset_key

    @dg.multi_asset(
        name=declared.name,
        specs=[_spec(shown, table, translator) for table in declared.tables],
        config_schema=plain_fields(config_type),
        pool=f"job_{declared.name}",
        op_tags={"dagster/priority": str(shown.priority)},
        description=declared.description,
    )
    @fails_with_message
    def run_keyed_job(
        context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.MaterializeResult]:
        lakehouse, spark = keyfold.lakehouse, keyfold.runners
        if is_left_to_continuous_run(context, lakehouse.job(declared.name)):
            maintain_job(context, lakehouse, declared, translator)
            return

        def report_batch(progress: Progress, counts: Counts) -> None:
            rows = ", ".join(f"{count:,} {name}" for name, count in counts.rows.items() if count) or "none"
            context.log.info(f"{progress.describe()}: {counts.events:,} events; rows: {rows}")

        config = checked(config_type, context.op_execution_context.op_config, f"ops: {declared.name}")
        mode = config.run_mode()
        if isinstance(mode, FullRefresh):
            refuse_to_forget(lakehouse, declared, config.given())
        job = configured_job(lakehouse, declared, mode, config.given())
        options = RunOptions(on_batch=report_batch)
        before = {table.name: last_materialization(context.instance, key(table.name)) for table in job.tables}
        summary = runs.run(lakehouse, job, mode, options=options, runners=spark)
        for warning in summary.warnings:
            context.log.warning(warning)
        batch = last_batch(lakehouse, job.name)
        metadata = {
            table.name: _written_metadata(lakehouse, job, table, summary, batch, before[table.name], translator)
            for table in job.tables
        }
        # Drawn and read once, which takes longer than a run without news.
        if not all(_is_as_before(metadata[name], earlier) for name, earlier in before.items()):
            for table in job.tables:
                metadata[table.name]["preview"] = _preview(lakehouse, job, table)
            metadata[job.name] |= {
                **_plots(context, lakehouse, job, shown.plot),
                **open_state_metadata(context.log, lakehouse, job),
            }
        else:
            for name, earlier in before.items():
                metadata[name] = {**_shown_before(earlier), **metadata[name]}
        for table in job.tables:
            yield dg.MaterializeResult(asset_key=key(table.name), metadata=metadata[table.name])
        maintain_job(context, lakehouse, declared, translator)

    return run_keyed_job


def conservation_check(declared: KeyedJob, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetChecksDefinition:
    """Build the blocking check that every event the job has read is in an output, in open state, or late."""

    @dg.asset_check(
        asset=translator.get_asset_key(declared.name),
        name="no_event_is_lost",
        description="Events read (event table's log) = events in outputs + in open state + late (counted in the tables and the "
        "state) = events that reached a step (journal).",
        blocking=True,
        pool=f"job_{declared.name}",
    )
    @fails_with_message
    def no_event_is_lost(keyfold: dg.ResourceParam[Keyfold]) -> dg.AssetCheckResult:
        found = check_conservation(keyfold.lakehouse, configured_job(keyfold.lakehouse, declared))
        return dg.AssetCheckResult(
            passed=found.balanced,
            severity=dg.AssetCheckSeverity.ERROR,
            description=_balance(found),
            metadata={
                "events_read": found.events_read,
                "journalled": found.journalled,
                "in_outputs": found.in_outputs,
                "open_events": found.open_events,
                "late": found.late,
                **({"left_out": found.left_out} if found.left_out else {}),
                **{f"events of {name}": read for name, (read, _) in found.by_input.items()},
            },
        )

    return no_event_is_lost


def _balance(found: Conservation) -> str:
    if found.is_empty:
        return "no events read yet"
    accounted = found.in_outputs + found.open_events + found.late
    if not (found.events_read or accounted or found.journalled):
        # Inputs whose events may end without a row.
        return "; ".join(
            f"{counted(read, 'event')} of {name} read {'=' if read == reached else '≠'} {reached:,} that reached the step"
            for name, (read, reached) in found.by_input.items()
        )
    copies = "" if found.rows_read is None else f" ({found.rows_read:,} rows, each copied once per key)"
    copies += f" (beside {counted(found.left_out, 'row')} that a condition leaves out)" if found.left_out else ""
    return (
        f"{counted(found.events_read, 'event')} read{copies} {'=' if found.events_read == accounted else '≠'} "
        f"{found.in_outputs:,} in outputs + "
        f"{found.open_events:,} open + {found.late:,} late {'=' if accounted == found.journalled else '≠'} "
        f"{found.journalled:,} in the journal{input_differences(found)}"
    )


def _spec(shown: JobAssets, table: OutputTable, translator: KeyfoldTranslator) -> dg.AssetSpec:
    job, key = shown.job, translator.get_asset_key
    inputs = [key(name) for name in dict.fromkeys(one.table for one in job.inputs.values())]
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
            freshness_policy=FRESH if table.name == job.name else None,
            metadata={
                "dagster/table_name": table.name,
                "dagster/column_schema": column_schema(table.schema, table.key),
            },
        ),
    )


def _preview(lakehouse: Lakehouse, job: KeyedJob, table: OutputTable) -> dg.MetadataValue:
    return preview(lakehouse.table(table.name), job.private_of(table.schema))


_OF_A_RUN = {"warnings", "topic", "rows_to_topic", SINCE_BATCH}
"""Metadata that says what a run did, and is not repeated by the next."""


def _is_as_before(metadata: Mapping[str, Any], before: dg.AssetMaterialization | None) -> bool:
    """Return whether a table has the version and the batch of its last materialization, so that its rows and the state are the same."""
    if before is None or not {"table_version", GENERATION, BATCH} <= before.metadata.keys() & metadata.keys():
        return False
    return all(before.metadata[name].value == metadata[name].value for name in ("table_version", GENERATION, BATCH))


def _shown_before(before: dg.AssetMaterialization | None) -> dict[str, Any]:
    return {name: one for name, one in (before.metadata if before else {}).items() if name not in _OF_A_RUN}


def _plots(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, job: KeyedJob, plot: Plot | None
) -> dict[str, dg.MetadataValue]:
    plots = try_plot(context.log, lambda: plot_runs(lakehouse, job.name))
    # A plot shows keys and values.
    may_draw = not any(job.private_of(table.schema) for table in job.tables)
    return {**plots, **(try_plot(context.log, lambda: plot(lakehouse)) if plot and may_draw else {})}


def _written_metadata(
    lakehouse: Lakehouse,
    job: KeyedJob,
    table: OutputTable,
    summary: "runs.JobRun",
    batch: int | None,
    before: dg.AssetMaterialization | None,
    translator: KeyfoldTranslator,
) -> dict[str, Any]:
    sent = [one for one in summary.published if one.table == table.name]
    return {
        **table_metadata(lakehouse.table(table.name)),
        **batch_metadata(summary.generation, batch, before),
        EVENTS: summary.totals.events,
        # Dagster's pages read the lineage from the materialization, not from the definition.
        "dagster/column_lineage": dg.MetadataValue.column_lineage(column_lineage(job, table, translator)),
        "rows_out": summary.counts.rows.get(table.name, 0),
        **({"topic": sent[0].topic, "rows_to_topic": sent[0].rows} if sent else {}),
        **(_run_metadata(job, summary) if table.name == job.name else {}),
    }


def _run_metadata(job: KeyedJob, summary: RunSummary) -> dict[str, Any]:
    return {
        **({"runner": summary.runner} if summary.runner else {}),
        "events_in": summary.counts.events,
        "late": summary.counts.rows.get(job.late_table, 0),
        "open_events": summary.totals.open_events,
        "watermark": dg.MetadataValue.timestamp(summary.watermark) if summary.watermark else None,
        "mode": summary.mode,
        "batches": len(summary.batch_seconds),
        "batch_seconds": dg.MetadataValue.json([round(seconds, 2) for seconds in summary.batch_seconds]),
        "seconds": round(summary.seconds, 2),
        **warning_metadata(summary.warnings),
    }
