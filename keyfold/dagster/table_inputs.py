"""Read Keyfold's tables as inputs of other assets: `def mine(orders_per_hour: pl.LazyFrame)`.

Dagster loads an asset by the IO manager of the asset that made it, so Keyfold's assets name the resource `keyfold` for this. It
only reads: an asset of yours that names it for its own value is refused.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dagster as dg
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


def readable(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec of a table's asset, which other assets can have as an input."""
    # With an IO manager alone, Dagster takes the asset for one that returns a value, which it would store.
    system = {"dagster/io_manager_key": RESOURCE, "dagster/dagster_type": dg.Nothing}
    return spec.merge_attributes(metadata=system) if TABLE in spec.metadata else spec


@fails_with_message
def load_table(context: dg.InputContext, lakehouse: Lakehouse, runners: Runners) -> Any:
    """Return the table of an upstream asset, as the type that the input is annotated with.

    Without an annotation it is a lazy frame of Polars. All rows are those of one version of the table.

    Raises:
        dg.Failure: the asset names no table, the table does not exist, or the type is none of those that can be read.
    """
    asset = context.asset_key.to_user_string()
    upstream = context.upstream_output
    table = ((upstream.definition_metadata if upstream else None) or {}).get(TABLE)
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
    return read(lakehouse.table(str(table)), runners)


def _name_of(annotation: Any) -> str:
    if annotation is Any or not isinstance(annotation, type):
        return _LAZY
    # By name, since most of these packages need not be installed. The name of DuckDB's module begins with an underscore.
    return f"{annotation.__module__.split('.')[0].lstrip('_')}.{annotation.__name__}"


def _dataset(table: Place) -> "Dataset":
    return DeltaTable(str(table)).to_pyarrow_dataset()


def _duckdb_relation(table: Place) -> Any:
    import duckdb  # noqa: PLC0415 - need not be installed

    return duckdb.connect().from_arrow(_dataset(table))


def _spark_frame(table: Place, runners: Runners) -> Any:
    from keyfold.runners.spark_frames import read_parquet  # noqa: PLC0415 - imports pyspark

    delta = DeltaTable(str(table))
    return read_parquet(runners.session, data_file_paths(table, delta.version()), delta.to_pyarrow_dataset().schema)


_LAZY = "polars.LazyFrame"
_READERS: dict[str, Callable[[Place, Runners], Any]] = {
    _LAZY: lambda table, runners: scan_table(table),
    "polars.DataFrame": lambda table, runners: scan_table(table).collect(),
    "pyarrow.Table": lambda table, runners: _dataset(table).to_table(),
    "pyarrow.Dataset": lambda table, runners: _dataset(table),
    "pandas.DataFrame": lambda table, runners: _dataset(table).to_table().to_pandas(),
    "duckdb.DuckDBPyRelation": lambda table, runners: _duckdb_relation(table),
    "pyspark.DataFrame": _spark_frame,
}
