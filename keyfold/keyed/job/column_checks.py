"""Check the columns that a declaration names."""

import pyarrow as pa

from keyfold.errors import Misconfigured


def require_columns(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a schema lacks a column."""
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise Misconfigured(f"{where} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")


def require_not_null(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a column may be NULL."""
    nullable = [column for column in columns if schema.field(column).nullable]
    if nullable:
        raise Misconfigured(
            f"{where} column {', '.join(nullable)} may be NULL, and NULL equals nothing, not even itself: declare it with "
            "nullable=False, and see that no event lacks it"
        )


def require_timestamp(where: str, column: str, schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a column is not a UTC timestamp in microseconds."""
    kind = schema.field(column).type
    if kind != pa.timestamp("us", tz="UTC"):
        raise Misconfigured(f"{where}: column {column} is {kind}; it must be timestamp[us, tz=UTC]")
