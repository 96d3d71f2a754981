"""Delta tables as such: whether one is there, and how one is made."""

import pyarrow as pa
from deltalake import DeltaTable, Schema

from keyfold.columns import COMMENT, describe
from keyfold.storage.place import Place


def is_table(path: Place) -> bool:
    """Whether a Delta table is there; a folder that a killed run left before its table was whole is none."""
    return DeltaTable.is_deltatable(str(path))


def create_table(path: Place, schema: pa.Schema, *, is_read_by_version: bool = False) -> None:
    """Make an empty Delta table, unless there is one; every column may be NULL, as in what Spark appends.

    What the schema's columns mean (`keyfold.columns`) becomes their comments.

    Args:
        path: its folder.
        schema: its columns.
        is_read_by_version: whether jobs read what came to it since a version. Delta then deletes no log entries by their
            age; maintenance does, by what jobs have yet to read.
    """
    # As often as Spark writes one by default; deltalake would take ten times as many commits.
    properties = {"delta.checkpointInterval": "10"}
    if is_read_by_version:
        properties["delta.enableExpiredLogCleanup"] = "false"
    DeltaTable.create(str(path), table_schema(schema), mode="ignore", configuration=properties)


def table_schema(schema: pa.Schema) -> Schema:
    """The columns as a Delta table has them: all may be NULL, each with its comment."""
    return Schema.from_arrow(pa.schema([_as_in_delta(field) for field in schema]))


def table_id(path: Place) -> str:
    """What Delta knows a table by; one that is deleted and made again has another."""
    return str(DeltaTable(str(path)).metadata().id)


def _as_in_delta(field: pa.Field) -> pa.Field:
    comment = describe(field)
    # The comment alone: units and origins are for programs, which read them from the declaration.
    return field.with_nullable(True).with_metadata({COMMENT: comment.encode()} if comment else {})
