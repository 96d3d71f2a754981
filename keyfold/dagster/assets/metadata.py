"""Describe tables for Dagster: keys, columns and their lineage, and the metadata of materializations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.columns import describe, lineage_of, unit_of
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.lakehouse.reading import count_rows
from keyfold.storage.place import Place


def column_schema(schema: pa.Schema, key: Sequence[str] = ()) -> dg.TableSchema:
    """Convert a declared schema for Dagster: types, descriptions, units as tags, nullable and unique columns.

    Args:
        schema: the table's schema (`keyfold.columns`).
        key: the table's key columns; the table has one row a key.
    """
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=field.name,
                type=str(field.type),
                description=describe(field) or None,
                constraints=dg.TableColumnConstraints(nullable=field.nullable, unique=list(key) == [field.name]),
                tags={"unit": unit} if (unit := unit_of(field)) else {},
            )
            for field in schema
        ]
    )


def column_lineage(job: KeyedJob, table: OutputTable, translator: KeyfoldTranslator = DEFAULT) -> dg.TableColumnLineage:
    """Return, for each column of a job's table, the input columns that it is derived from.

    Raises:
        KeyfoldError: a column names a source column that no input of the job has.
    """
    # If several inputs have a column of the same name, it depends on all of them.
    tables: dict[str, list[dg.AssetKey]] = {}
    sources_of_job = {one.table: one.stream for one in job.inputs.values()}
    for read, source in sources_of_job.items():
        for name in source.event_schema.names:
            tables.setdefault(name, []).append(translator.get_asset_key(read))
    lineage = {}
    for field in table.schema:
        sources = lineage_of(field)
        if not sources and table.name == job.late_table and field.name in tables:
            # Late events are events of the stream, so their columns are the stream's, except those that the job derives.
            sources = (field.name,)
        if unknown := [source for source in sources if source not in tables]:
            raise Misconfigured(
                f"table {table.name}: column {field.name} names the source {', '.join(unknown)}, which stream "
                f"{' and '.join(one.name for one in sources_of_job.values())} does not have; it has {', '.join(tables)}"
            )
        if sources:
            lineage[field.name] = [
                dg.TableColumnDep(asset_key=events, column_name=source)
                for source in sources
                for events in tables[source]
            ]
    return dg.TableColumnLineage(lineage)


_PAGE = 100


def last_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> dg.AssetMaterialization | None:
    """Return the asset's last materialization as a whole, None before its first; its partitions have others."""
    cursor, limit = None, 1
    while True:
        page = instance.fetch_materializations(asset, limit=limit, cursor=cursor)
        for record in page.records:
            if (report := record.asset_materialization) is not None and report.partition is None:
                return report
        if not page.has_more:
            return None
        cursor, limit = page.cursor, _PAGE


GENERATION = "keyfold/generation"
"""Metadata key: the generation that the table belongs to."""
BATCH = "keyfold/batch"
"""Metadata key: the generation's newest batch at the end of the run."""
SINCE_BATCH = "keyfold/since_batch"
"""Metadata key: `BATCH` of the materialization before; missing in a generation's first materialization."""
EVENTS = "keyfold/events"
"""Metadata key: number of events that the generation has read, or of rows that ingest has."""
ROWS = "keyfold/rows"
"""Metadata key: number of rows that batches have written to the table since the generation began."""


@dataclass(frozen=True)
class WrittenBatches:
    """The batches that a materialization reports: those of its own run and earlier, unreported ones.

    Failed runs and runs of the command line report no materialization; checks must see their rows too.

    Attributes:
        generation: the job's generation.
        since: the last batch that was reported before.
        until: the last batch of this materialization.
    """

    generation: str
    since: int
    until: int


def batch_metadata(
    generation: str, batch: int | None, events: int, rows: int, before: dg.AssetMaterialization | None
) -> dict[str, dg.MetadataValue]:
    """Return the metadata that records what a materialization reports; as text, since Dagster plots numbers.

    Args:
        generation: the job's generation; empty for a stream.
        batch: the newest batch.
        events: the events that were read since the generation began.
        rows: the rows that were written to the table since then.
        before: the table's previous materialization.
    """
    reported = recorded(before)
    is_same = reported.get(GENERATION) == generation
    return {
        GENERATION: dg.MetadataValue.text(generation),
        **({BATCH: dg.MetadataValue.text(str(batch))} if batch is not None else {}),
        **({SINCE_BATCH: dg.MetadataValue.text(reported[BATCH])} if is_same and BATCH in reported else {}),
        EVENTS: dg.MetadataValue.text(str(events)),
        ROWS: dg.MetadataValue.text(str(rows)),
    }


def recorded(report: dg.AssetMaterialization | dg.AssetObservation | None) -> dict[str, str]:
    """Return what `batch_metadata` has recorded in a materialization or observation."""
    metadata = report.metadata if report is not None else {}
    return {name: str(metadata[name].value) for name in (GENERATION, BATCH, EVENTS, ROWS) if name in metadata}


def is_written(metadata: Mapping[str, dg.MetadataValue], before: dg.AssetMaterialization | None) -> bool:
    """Return whether a table has rows that its last materialization does not report, or a generation that it does not.

    What has none is reported as an observation: a materialization would start what depends on the table, and make it look fresh.

    Args:
        metadata: `batch_metadata` of the table.
        before: its last materialization.
    """
    reported = recorded(before)
    return any(reported.get(name) != str(metadata[name].value) for name in (GENERATION, ROWS))


def written_batches(materialization: dg.AssetMaterialization | None) -> WrittenBatches | None:
    """Return the batches that a materialization reports; None for a generation's first, which reports the whole table."""
    metadata = materialization.metadata if materialization is not None else {}
    if not {GENERATION, BATCH, SINCE_BATCH} <= metadata.keys():
        return None
    generation, since, until = (str(metadata[name].value) for name in (GENERATION, SINCE_BATCH, BATCH))
    return WrittenBatches(generation, int(since), int(until))


def table_metadata(path: Place) -> dict[str, dg.MetadataValue]:
    """Return the row count, path and version of a Delta table, read from its log."""
    return {
        "dagster/row_count": dg.MetadataValue.int(count_rows(path)),
        "dagster/uri": dg.MetadataValue.text(path.as_uri()),
        "table_version": dg.MetadataValue.text(str(DeltaTable(str(path)).version())),
    }


def warning_metadata(warnings: Sequence[str]) -> dict[str, dg.MetadataValue]:
    """Return a run's warnings, one a line; as plain text, not Markdown, since they contain names of files."""
    return {"warnings": dg.MetadataValue.text("\n".join(warnings))} if warnings else {}
