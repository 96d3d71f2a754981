"""Read Keyfold's tables as inputs of other assets: `def mine(orders_per_hour: pl.LazyFrame)`.

Dagster loads an asset by the IO manager of the asset that made it, so Keyfold's assets name the resource `keyfold` for this. It
only reads: an asset of yours that names it for its own value is refused. A run of an asset with partitions gets the rows of those
partitions of a table that it asks for.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg
import polars as pl
from deltalake import DeltaTable

from keyfold.dagster.failures import fails_with_message
from keyfold.errors import Misconfigured
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import data_file_paths, scan_table
from keyfold.runners import Runners
from keyfold.storage.place import Place

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

RESOURCE = "keyfold"
"""Key of the resource, which reads the tables for Dagster."""

TABLE = "dagster/table_name"
"""Metadata of an asset that names its table."""

PARTITIONED_BY = "keyfold/partitioned_by"
"""Metadata of an asset with partitions: the column with the times of its rows."""


def readable(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec of a table's asset, which other assets can have as an input."""
    # With an IO manager alone, Dagster takes the asset for one that returns a value, which it would store.
    system = {"dagster/io_manager_key": RESOURCE, "dagster/dagster_type": dg.Nothing}
    return spec.merge_attributes(metadata=system) if TABLE in spec.metadata else spec


@fails_with_message
def load_table(context: dg.InputContext, lakehouse: Lakehouse, runners: Runners) -> Any:
    """Return the table of an upstream asset, as the type that the input is annotated with.

    Without an annotation it is a lazy frame of Polars. All rows are those of one version of the table; of a table with partitions, those
    of the partitions that the run of an asset with partitions depends on.

    Raises:
        dg.Failure: the asset names no table, the table does not exist, or the type is none of those that can be read.
    """
    asset = context.asset_key.to_user_string()
    upstream = context.upstream_output
    metadata = (upstream.definition_metadata if upstream else None) or {}
    table = metadata.get(TABLE)
    if table is None:
        raise Misconfigured(
            f"asset {asset} has no metadata {TABLE}, so its table is not known; where another code location makes it, declare "
            f'dg.AssetSpec("{asset}", metadata={{"{TABLE}": "NAME"}}) here'
        )
    annotation: Any = context.dagster_type.typing_type
    name = _name_of(annotation)
    read = _READERS.get(name)
    if read is None:
        raise Misconfigured(
            f"input {context.name} is annotated with {name}; table {table} can be read as {', '.join(_READERS)}"
        )
    return read(lakehouse.table(str(table)), runners, _span(context, metadata.get(PARTITIONED_BY)))


class Span(NamedTuple):
    """The times of the rows that are read: their column, and bounds, of which the second is exclusive."""

    column: str
    since: datetime
    until: datetime

    @property
    def expression(self) -> pl.Expr:
        return pl.col(self.column).is_between(self.since, self.until, closed="left")

    @property
    def sql(self) -> str:
        column = f'"{self.column}"'
        return f"{column} >= {_literal(self.since)} AND {column} < {_literal(self.until)}"


def _literal(time: datetime) -> str:
    return f"CAST('{time:%Y-%m-%d %H:%M:%S}+00:00' AS TIMESTAMP WITH TIME ZONE)"


def _span(context: dg.InputContext, column: Any) -> Span | None:
    """Return the times of the partitions that a run depends on; None for all rows."""
    if column is None or not context.has_asset_partitions:
        return None
    definition, keys = context.asset_partitions_def, context.asset_partition_key_range
    if (keys.start, keys.end) == (definition.get_first_partition_key(), definition.get_last_partition_key()):
        # An asset without partitions depends on all of them, and takes the rows of days that are not complete too.
        return None
    window = context.asset_partitions_time_window
    return Span(str(column), window.start.astimezone(UTC), window.end.astimezone(UTC))


def _name_of(annotation: Any) -> str:
    if annotation is Any or not isinstance(annotation, type):
        return _LAZY
    # By name, since most of these packages need not be installed. The name of DuckDB's module begins with an underscore.
    return f"{annotation.__module__.split('.')[0].lstrip('_')}.{annotation.__name__}"


def _lazy(table: Place, span: Span | None) -> pl.LazyFrame:
    rows = scan_table(table)
    return rows if span is None else rows.filter(span.expression)


def _dataset(table: Place, span: Span | None) -> "Dataset":
    rows = DeltaTable(str(table)).to_pyarrow_dataset()
    if span is None:
        return rows
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a tenth of a second

    column = pc.field(span.column)
    return rows.filter((column >= span.since) & (column < span.until))


def _duckdb_relation(table: Place, span: Span | None) -> Any:
    import duckdb  # noqa: PLC0415 - need not be installed

    rows = duckdb.connect().from_arrow(_dataset(table, None))
    return rows if span is None else rows.filter(span.sql)


def _spark_frame(table: Place, runners: Runners, span: Span | None) -> Any:
    from keyfold.runners.spark_frames import read_parquet  # noqa: PLC0415 - imports pyspark

    delta = DeltaTable(str(table))
    rows = read_parquet(runners.session, data_file_paths(table, delta.version()), delta.to_pyarrow_dataset().schema)
    return rows if span is None else rows.filter(span.sql.replace('"', "`").replace(" WITH TIME ZONE", ""))


_LAZY = "polars.LazyFrame"
_READERS: dict[str, Callable[[Place, Runners, Span | None], Any]] = {
    _LAZY: lambda table, runners, span: _lazy(table, span),
    "polars.DataFrame": lambda table, runners, span: _lazy(table, span).collect(),
    "pyarrow.Table": lambda table, runners, span: _dataset(table, span).to_table(),
    "pyarrow.Dataset": lambda table, runners, span: _dataset(table, span),
    "pandas.DataFrame": lambda table, runners, span: _dataset(table, span).to_table().to_pandas(),
    "duckdb.DuckDBPyRelation": lambda table, runners, span: _duckdb_relation(table, span),
    "pyspark.DataFrame": _spark_frame,
}
