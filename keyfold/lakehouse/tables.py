"""Create Delta tables, and check whether a folder holds one."""

import pyarrow as pa
from deltalake import DeltaTable, Schema

from keyfold.columns import COMMENT, describe
from keyfold.storage.place import Place


def is_table(path: Place) -> bool:
    """Whether a folder holds a Delta table. A folder whose table was not yet committed when a run was killed does not."""
    return DeltaTable.is_deltatable(str(path))


def create_table(path: Place, schema: pa.Schema, *, is_read_by_version: bool = False) -> None:
    """Create an empty Delta table, if there is none. All columns are nullable, as Spark appends them so.

    The descriptions of the schema's columns (`keyfold.columns`) become column comments.

    Args:
        path: the table's folder.
        schema: its columns.
        is_read_by_version: whether jobs read the table's changes by version. Delta then does not delete log entries by age;
            maintenance deletes those that no job still has to read.
    """
    # Spark's default number of commits between log checkpoints; that of deltalake is ten times as large.
    properties = {"delta.checkpointInterval": "10"}
    if is_read_by_version:
        properties["delta.enableExpiredLogCleanup"] = "false"
    DeltaTable.create(str(path), table_schema(schema), mode="ignore", configuration=properties)


def table_schema(schema: pa.Schema) -> Schema:
    """Return the Delta schema of Arrow columns: all nullable, with their comments."""
    return Schema.from_arrow(pa.schema([_as_in_delta(field) for field in schema]))


def table_id(path: Place) -> str:
    """Return the id that Delta gave a table when it was created."""
    return str(DeltaTable(str(path)).metadata().id)


def _as_in_delta(field: pa.Field) -> pa.Field:
    comment = describe(field)
    # Only the comment: programs read units and origins from the declaration.
    return field.with_nullable(True).with_metadata({COMMENT: comment.encode()} if comment else {})
