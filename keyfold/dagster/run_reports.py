"""Show continuous runs in Dagster: they run outside of it, and report themselves (`keyfold.runs.reports_to_dagster`)."""

from datetime import UTC, datetime

import dagster as dg
from deltalake import DeltaTable

from keyfold.dagster.assets.metadata import (
    BATCH,
    EVENTS,
    GENERATION,
    batch_metadata,
    last_materialization,
)
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import Misconfigured, NotFound
from keyfold.lakehouse.files import is_held
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
        """Report a materialization of each table, unless its last one is of the same batch."""
        for name, table in written.tables.items():
            key = self._translator.get_asset_key(name)
            before = last_materialization(self._instance, key)
            if (metadata := _metadata(written, table, before)) is not None:
                self._instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata))


def is_left_to_continuous_run(context: dg.AssetExecutionContext, lock: Place) -> bool:
    """Return whether a run that nobody started by hand has nothing to do, since another process holds the lock.

    Such as a continuous run. A run that somebody started fails with the reason instead.
    """
    if not (_STARTED_BY & context.run.tags.keys() and is_held(lock)):
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
    found = project.translator
    if not isinstance(found, KeyfoldTranslator | None):
        raise Misconfigured(f"the project's translator {project.translator_at} is no keyfold.dagster.KeyfoldTranslator")
    return found or DEFAULT


def _metadata(
    written: Written, table: DeltaTable, before: dg.AssetMaterialization | None
) -> dict[str, dg.MetadataValue] | None:
    """Return the metadata of a table's materialization; None if the batch was reported."""
    reported = {name: one.value for name, one in before.metadata.items()} if before is not None else {}
    is_same = reported.get(GENERATION) == written.generation
    if is_same and reported.get(BATCH) == written.batch:
        return None
    earlier = reported.get(EVENTS) if is_same else None
    metadata = {
        **batch_metadata(written.generation, written.batch, before),
        "dagster/row_count": dg.MetadataValue.int(table.count()),
        EVENTS: dg.MetadataValue.int(written.events),
        "events_in": dg.MetadataValue.int(written.events - (earlier if isinstance(earlier, int) else 0)),
        "finished_at": dg.MetadataValue.timestamp(written.finished_at),
    }
    if written.open_events is not None:
        metadata["open_events"] = dg.MetadataValue.int(written.open_events)
    # The first watermark is in the year 1.
    if written.watermark is not None and written.watermark.timestamp() > 0:
        behind = (datetime.now(UTC) - written.watermark).total_seconds()
        metadata |= {
            "watermark": dg.MetadataValue.timestamp(written.watermark),
            "watermark_lag_seconds": dg.MetadataValue.float(round(behind, 1)),
        }
    return metadata
