"""What is open in each job now, as a table `open.<job>`: materialized when asked for, or by a schedule."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from pyspark.sql import SparkSession

from keyfold.dagster.assets.columns import column_schema
from keyfold.dagster.assets.metadata import BATCH, GENERATION, table_key, table_metadata
from keyfold.dagster.assets.previews import preview
from keyfold.dagster.plots.open_state import plot_open_keys, plot_state
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.parameters import build_job
from keyfold.keyed.job.template import JobTemplate
from keyfold.keyed.runner import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.open_keys import OPEN, open_schema, write_open_keys
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.state_statistics import StateStatistics, state_statistics
from keyfold.storage.place import Place

OPEN_STATE = "open_state"
"""The asset group; not `GROUP`: this module is none of the groups that are found by that."""


def open_state_asset(template: JobTemplate, *, owners: Sequence[str] = ()) -> dg.AssetsDefinition:
    """The table of a job's open keys as an asset: who is open, since when, until when, with how many events.

    Args:
        template: the job.
        owners: people or teams, in Dagster's notation.
    """
    name, typical = template.name, build_job(template)
    schema = open_schema(typical)

    @dg.asset(
        key=table_key(f"{OPEN}.{name}"),
        deps=[table_key(name)],
        group_name=OPEN_STATE,
        kinds={"pyspark", "deltalake"},
        owners=list(owners),
        pool=f"open_{name}",
        # A job that has not run yet has no state to show, and that is no failure.
        output_required=False,
        description=f"The keys that are open in `{name}`, as of its last batch: since when, until when, and how many of "
        "their events wait. Read from the job's state; each materialization replaces the rows.",
        metadata={
            "dagster/table_name": f"{OPEN}.{name}",
            "dagster/column_schema": column_schema(schema, typical.key),
        },
    )
    def read_open_keys(
        context: dg.AssetExecutionContext,
        spark: dg.ResourceParam[SparkSession],
        lakehouse: dg.ResourceParam[Lakehouse],
    ) -> Iterator[dg.MaterializeResult]:
        live = live_generation(lakehouse, name)
        if live is None:
            context.log.info(f"{name} has not run yet: there is no state to show")
            return
        job = configured_job(lakehouse, template)
        rows = read_state(spark, lakehouse, job)
        written = write_open_keys(lakehouse, job, rows)
        path = lakehouse.open_state(name)
        reached = watermark(live)
        yield dg.MaterializeResult(
            metadata={
                **table_metadata(path, preview(path, job.private_of(schema))),
                GENERATION: dg.MetadataValue.text(rows.generation),
                **({BATCH: dg.MetadataValue.int(rows.batch)} if rows.batch is not None else {}),
                "watermark": dg.MetadataValue.timestamp(reached) if reached else dg.MetadataValue.null(),
                "open_keys": dg.MetadataValue.int(written.rows),
                **_statistics(context, state_statistics(lakehouse, rows)),
                **_plot(context, path, name),
            }
        )

    return read_open_keys


def _statistics(context: dg.AssetExecutionContext, told: StateStatistics) -> Mapping[str, dg.MetadataValue]:
    numbers = {
        "state_rows": dg.MetadataValue.int(told.rows),
        "state_keys": dg.MetadataValue.int(told.keys),
        "state_bytes": dg.MetadataValue.int(told.bytes),
        "skew_over_key_groups": dg.MetadataValue.float(told.skew),
        **{
            f"next_{kind}": dg.MetadataValue.timestamp(timers.first)
            for kind, timers in told.timers.items()
            if timers.first is not None
        },
    }
    try:
        return {**numbers, **plot_state(told)}
    except Exception:  # as below
        context.log.warning("the plot could not be drawn", exc_info=True)
        return numbers


def _plot(context: dg.AssetExecutionContext, table: Place, job: str) -> Mapping[str, dg.MetadataValue]:
    try:
        return plot_open_keys(table, job)
    except Exception:  # the table is written: a plot that cannot be drawn must not say that it is not
        context.log.warning("the plot could not be drawn", exc_info=True)
        return {}
