"""Show continuous runs in Dagster: they run outside of it, and report themselves (`keyfold.runs.reports_to_dagster`)."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from keyfold.dagster.assets.metadata import (
    BATCH,
    EVENTS,
    ROWS,
    SINCE_BATCH,
    batch_metadata,
    is_written,
    last_materialization,
    recorded,
)
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import Misconfigured, NotFound
from keyfold.project import current_project
from keyfold.runs.reports_to_dagster import Written
from keyfold.storage.place import Place

_STARTED_BY = {"dagster/sensor_name", "dagster/schedule_name", "dagster/from_automation_condition"}


class DagsterReports:
    """Reports to the Dagster instance of DAGSTER_HOME, by the asset keys of the project's translator."""

    def __init__(self) -> None:
        self._translator = translator_of_project()
        self._instance = dg.DagsterInstance.get()

    def report(self, written: Written) -> None:
        """Report each table that is an asset: a materialization if it has rows that are not reported, else an observation."""
        for name, table in written.tables.items():
            key = self._translator.get_asset_key(name)
            # A side table is an asset where a group asks for it, whose first run reports it.
            if name in written.side_tables and not self._instance.has_asset_key(key):
                continue
            before = last_materialization(self._instance, key)
            metadata = _metadata(written, name, table, before)
            if is_written(metadata, before):
                self._instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata))
            elif str(written.batch) not in {recorded(report).get(BATCH) for report in (before, self._observed(key))}:
                self._instance.report_runless_asset_event(dg.AssetObservation(key, metadata=metadata))

    def _observed(self, key: dg.AssetKey) -> dg.AssetObservation | None:
        records = self._instance.fetch_observations(key, limit=1).records
        return records[0].asset_observation if records else None


def report_materialization(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, metadata: Mapping[str, Any], *, has_partitions: bool = False
) -> Iterator[dg.MaterializeResult | dg.Output[None]]:
    """Report that a step has written an asset, selected or not: a job writes all its tables.

    Args:
        context: of the step.
        asset: the asset.
        metadata: what is shown of it.
        has_partitions: whether an asset of the step has partitions: Dagster refuses results of assets downstream of it in a run
            without.
    """
    if asset in context.selected_asset_keys and not has_partitions:
        yield dg.MaterializeResult(asset_key=asset, metadata=metadata)
    else:
        context.log_event(dg.AssetMaterialization(asset, metadata=metadata))
        yield from _without_event(context, asset)


def report_observation(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, metadata: Mapping[str, Any]
) -> Iterator[dg.Output[None]]:
    """Report what a step has read, which has written no row of an asset. Its checks and what is downstream in the run go on."""
    context.log_event(dg.AssetObservation(asset, metadata=metadata))
    yield from _without_event(context, asset)


def _without_event(context: dg.AssetExecutionContext, asset: dg.AssetKey) -> Iterator[dg.Output[None]]:
    for name in context.op_execution_context.selected_output_names:
        if context.asset_key_for_output(name) == asset:
            yield dg.Output(None, name, metadata={_NO_EVENT: True})


_NO_EVENT = "__source_asset_observation__"
"""Metadata by which Dagster (1.12 to 1.13) records no materialization for an output. Without an output, it would skip the steps
downstream; a version that does not know the key records a materialization."""


def is_left_to_continuous_run(context: dg.AssetExecutionContext, lock: Place) -> bool:
    """Return whether a run that nobody started by hand has nothing to do, since another process holds the lock.

    Such as a continuous run. A run that somebody started fails with the reason instead.
    """
    if not (_STARTED_BY & context.run.tags.keys() and lock.is_held()):
        return False
    context.log.info("another process holds the lock, such as a continuous run: there is nothing to do here")
    return True


def translator_of_project() -> KeyfoldTranslator:
    """Return the translator of the project of this process: the default one, unless it names another.

    Raises:
        KeyfoldError: what it names is no translator, or cannot be imported.
    """
    try:
        project = current_project()
    except NotFound:
        return DEFAULT
    translator = project.translator
    if not isinstance(translator, KeyfoldTranslator | None):
        raise Misconfigured(
            f"the project's translator {project.translator_at} is no keyfold.dagster.KeyfoldTranslator: name one as module:NAME in translator_at"
        )
    return translator or DEFAULT


def _metadata(
    written: Written, name: str, table: DeltaTable, before: dg.AssetMaterialization | None
) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a table's materialization, in the order of those that a step reports."""
    records = batch_metadata(written.generation, written.batch, written.events, written.rows[name], before)
    reported = recorded(before) if SINCE_BATCH in records else {}
    rows_out, events_in = ("rows_out", "events_in") if written.generation else ("accepted", "rows_read")
    metadata = {
        rows_out: dg.MetadataValue.int(written.rows[name] - int(reported.get(ROWS, 0))),
        events_in: dg.MetadataValue.int(written.events - int(reported.get(EVENTS, 0))),
    }
    if written.open_events is not None:
        metadata["open_events"] = dg.MetadataValue.int(written.open_events)
    # The first watermark is in the year 1.
    if written.watermark is not None and written.watermark.timestamp() > 0:
        metadata = {"watermark": dg.MetadataValue.timestamp(written.watermark), **metadata}
    return {
        **metadata,
        "dagster/row_count": dg.MetadataValue.int(table.count()),
        "finished_at": dg.MetadataValue.timestamp(written.finished_at),
        **records,
    }
