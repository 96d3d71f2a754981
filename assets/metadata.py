"""What the assets tell Dagster about their tables: columns, places, counts, and a few rows to look at."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from spark_jobs.tables import count_rows, read_batches, readable

PREVIEW_ROWS = 10
_PREVIEW_WIDTH = 60


def table_key(table: str) -> dg.AssetKey:
    """The asset key of a table: `late.ride_summaries` is `ride_summaries_late`.

    Not `late/ride_summaries`: the graph shows a key's last part alone.
    """
    return dg.AssetKey("_".join(reversed(table.split("."))))


def last_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> dg.AssetMaterialization | None:
    """The asset's last materialization, None before its first."""
    event = instance.get_latest_materialization_event(asset)
    return event.asset_materialization if event is not None else None


def column_schema(schema: pa.Schema, descriptions: Mapping[str, str]) -> dg.TableSchema:
    """An Arrow schema as Dagster shows it.

    Raises:
        KeyError: a description is of no column; it would be lost without a word.
    """
    if strangers := sorted(descriptions.keys() - set(schema.names)):
        raise KeyError(f"descriptions of columns that are not there: {', '.join(strangers)}")
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=field.name,
                type=str(field.type),
                description=descriptions.get(field.name),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema
        ]
    )


TABLE_VERSION = "table_version"
"""Metadata: the Delta version of the table once the run had written it."""
SINCE_VERSION = "since_version"
"""Metadata: the version before the run's rows, that of the materialization before; it is not there for the first."""


def table_metadata(path: Path, before: dg.AssetMaterialization | None = None) -> dict[str, dg.MetadataValue]:
    """Row count, place, version and a preview of a Delta table, read from its log and at most ten of its rows.

    Args:
        path: of the table.
        before: the materialization before this one.
    """
    told = before.metadata if before is not None else {}
    since = told.get(TABLE_VERSION)
    is_same_table = "dagster/uri" in told and told["dagster/uri"].value == path.as_uri()
    return {
        **({SINCE_VERSION: since} if since is not None and is_same_table else {}),
        TABLE_VERSION: dg.MetadataValue.int(DeltaTable(str(path)).version()),
        "dagster/row_count": dg.MetadataValue.int(count_rows(path)),
        "dagster/uri": dg.MetadataValue.text(path.as_uri()),
        "preview": dg.MetadataValue.md(preview(path)),
    }


def preview(path: Path, rows: int = PREVIEW_ROWS) -> str:
    """A few rows of a Delta table as a Markdown table."""
    frames = [readable(frame) for frame in read_batches(path, rows)]
    if not frames:
        return "no rows"
    return markdown(pl.concat(frames))


def markdown(frame: pl.DataFrame) -> str:
    """A small frame as a Markdown table; a bar in a value cannot break it."""
    lines = [frame.columns, ["---"] * frame.width, *([_cell(value) for value in row] for row in frame.iter_rows())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    text = text if len(text) <= _PREVIEW_WIDTH else f"{text[: _PREVIEW_WIDTH - 1]}…"
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
