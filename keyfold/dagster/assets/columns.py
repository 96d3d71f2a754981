"""What the columns of a table mean and are made of, as Dagster shows it: read from their declarations."""

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from keyfold.columns import describe, made_of, unit_of
from keyfold.dagster.assets.metadata import table_key
from keyfold.errors import Misconfigured
from keyfold.keyed.contract import KeyedJob, OutputTable


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
    """Which columns of its stream's event table each column of a job's table is made of.

    Raises:
        KeyfoldError: a column says that it is made of one that the stream does not have.
    """
    known = job.stream.event_schema.names
    events = table_key(f"events.{job.stream.name}")
    lineage = {}
    for field in table.schema:
        sources = made_of(field)
        if not sources and table.name == job.late_table and field.name in known:
            # Late events are the stream's own, and so are the columns that the job has not derived.
            sources = (field.name,)
        if strangers := [source for source in sources if source not in known]:
            raise Misconfigured(
                f"table {table.name}: column {field.name} is said to be made of {', '.join(strangers)}, which stream "
                f"{job.stream.name} does not have; it has {', '.join(known)}"
            )
        if sources:
            lineage[field.name] = [dg.TableColumnDep(asset_key=events, column_name=source) for source in sources]
    return dg.TableColumnLineage(lineage)
