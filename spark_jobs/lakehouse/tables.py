"""Delta tables as such: whether one is there, and how one is made."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Schema


def is_table(path: Path) -> bool:
    """Whether a Delta table is there; a folder that a killed run left before its table was whole is none."""
    return DeltaTable.is_deltatable(str(path))


def create_table(path: Path, schema: pa.Schema) -> None:
    """Make an empty Delta table, unless there is one; every column may be NULL, as in what Spark appends."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    # As often as Spark writes one by default; deltalake would take ten times as many commits.
    checkpoints = {"delta.checkpointInterval": "10"}
    DeltaTable.create(str(path), Schema.from_arrow(nullable), mode="ignore", configuration=checkpoints)


def table_id(path: Path) -> str:
    """What Delta knows a table by; one that is deleted and made again has another."""
    return str(DeltaTable(str(path)).metadata().id)
