"""Describe a table's columns and their lineage for Dagster, from their declarations."""

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from keyfold.columns import describe, lineage_of, unit_of
from keyfold.dagster.assets.metadata import table_key
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable


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


def column_lineage(job: KeyedJob, table: OutputTable) -> dg.TableColumnLineage:
    """Return, for each column of a job's table, the input columns that it is derived from.

    Raises:
        KeyfoldError: a column names a source column that no input of the job has.
    """
    # If several inputs have a column of the same name, it depends on all of them.
    tables: dict[str, list[dg.AssetKey]] = {}
    sources_of_job = {one.table: one.stream for one in job.all_inputs.values()}
    for read, source in sources_of_job.items():
        for name in source.event_schema.names:
            tables.setdefault(name, []).append(table_key(read))
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
