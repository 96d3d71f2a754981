"""What the columns of a table mean and are made of, as Dagster shows it: read from their declarations."""

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from keyfold.columns import describe, made_of, unit_of
from keyfold.dagster.assets.metadata import table_key
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.output_table import OutputTable


def column_schema(schema: pa.Schema, key: Sequence[str] = ()) -> dg.TableSchema:
    """A declared schema as Dagster shows it: types, meanings, units as tags, what may be NULL, what is there once.

    Args:
        schema: of the table (`keyfold.columns`).
        key: columns of which the table has one row each.
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
    """Which columns of the tables that it reads each column of a job's table is made of.

    Raises:
        KeyfoldError: a column says that it is made of one that no input of the job has.
    """
    # Of several inputs each one that has a column of the name.
    tables: dict[str, list[dg.AssetKey]] = {}
    sources_of_job = {one.table: one.stream for one in job.all_inputs.values()}
    for read, source in sources_of_job.items():
        for name in source.event_schema.names:
            tables.setdefault(name, []).append(table_key(read))
    lineage = {}
    for field in table.schema:
        sources = made_of(field)
        if not sources and table.name == job.late_table and field.name in tables:
            # Late events are the stream's own, and so are the columns that the job has not derived.
            sources = (field.name,)
        if strangers := [source for source in sources if source not in tables]:
            raise Misconfigured(
                f"table {table.name}: column {field.name} is said to be made of {', '.join(strangers)}, which stream "
                f"{' and '.join(one.name for one in sources_of_job.values())} does not have; it has {', '.join(tables)}"
            )
        if sources:
            lineage[field.name] = [
                dg.TableColumnDep(asset_key=events, column_name=source)
                for source in sources
                for events in tables[source]
            ]
    return dg.TableColumnLineage(lineage)
