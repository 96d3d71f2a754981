"""Build the assets `open.<job>`: the open keys of each job, materialized on request or by a schedule."""

from collections.abc import Iterator, Mapping

import dagster as dg
from pyspark.sql import SparkSession

from keyfold.dagster.assets.columns import column_schema
from keyfold.dagster.assets.metadata import BATCH, GENERATION, table_key, table_metadata
from keyfold.dagster.assets.previews import preview
from keyfold.dagster.plots.figure import try_plot
from keyfold.dagster.plots.open_state import plot_open_keys, plot_state
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.parameters import typical_job
from keyfold.keyed.job.template import JobTemplate
from keyfold.keyed.runner import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.open_keys import OPEN, open_schema, write_open_keys
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.state_statistics import StateStatistics, state_statistics

OPEN_STATE = "open_state"
"""The asset group. Not named `GROUP`, by which `groups` finds the project's groups."""


def open_state_asset(template: JobTemplate) -> dg.AssetsDefinition:
    """Build the asset of a job's open keys: each open key, since when, until when, and its number of events."""
    name, typical = template.name, typical_job(template)
    schema = open_schema(typical)

    @dg.asset(
        key=table_key(f"{OPEN}.{name}"),
        deps=[table_key(name)],
        group_name=OPEN_STATE,
        kinds={"pyspark", "deltalake"},
        pool=f"open_{name}",
        # A job that has not run yet has no state, which is not a failure.
        output_required=False,
        description=f"The open keys of `{name}` after its last batch: since when and until when each is open, and its number "
        "of open events. Each materialization reads the job's state and replaces the rows.",
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
        reached, statistics = watermark(live), state_statistics(lakehouse, rows)
        yield dg.MaterializeResult(
            metadata={
                **table_metadata(path, preview(path, job.private_of(schema))),
                GENERATION: dg.MetadataValue.text(rows.generation),
                **({BATCH: dg.MetadataValue.int(rows.batch)} if rows.batch is not None else {}),
                "watermark": dg.MetadataValue.timestamp(reached) if reached else dg.MetadataValue.null(),
                "open_keys": dg.MetadataValue.int(written.rows),
                **_numbers(statistics),
                **try_plot(context.log, lambda: plot_state(statistics)),
                **try_plot(context.log, lambda: plot_open_keys(path, name)),
            }
        )

    return read_open_keys


def _numbers(statistics: StateStatistics) -> Mapping[str, dg.MetadataValue]:
    return {
        "state_rows": dg.MetadataValue.int(statistics.rows),
        "state_keys": dg.MetadataValue.int(statistics.keys),
        "state_bytes": dg.MetadataValue.int(statistics.bytes),
        "skew_over_key_groups": dg.MetadataValue.float(statistics.skew),
        **{
            f"next_{kind}": dg.MetadataValue.timestamp(timers.first)
            for kind, timers in statistics.timers.items()
            if timers.first is not None
        },
    }
