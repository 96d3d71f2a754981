"""Convert rows of state to lines of JSON, an object for each row; and read lines of JSON that have an object for each key."""

import json
from collections.abc import Mapping, Sequence

import polars as pl

from keyfold.times import ISO_FORMAT

_KEYED = r'^\s*\{\s*("(?:[^"\\]|\\.)*")\s*:\s*(\{.*\}|\[.*\])\s*\}\s*$'


def json_lines(rows: pl.DataFrame) -> pl.Series:
    """Convert rows to lines of JSON, without line ends: an object for each row, with all columns.

    Times are ISO 8601 in UTC; decimals and bytes (base64) are text.

    Example:
        >>> rows = pl.DataFrame({"item": ["Watch"], "models": [["a", "b"]], "quantity": [1929]})
        >>> json_lines(rows).to_list()
        ['{"item":"Watch","models":["a","b"],"quantity":1929}']
    """
    if not rows.height:
        return pl.Series([], dtype=pl.String)
    converted = rows.select(_as_json_type(pl.col(name), kind).alias(name) for name, kind in rows.schema.items())
    return converted.select(pl.struct(pl.all()).struct.json_encode()).to_series()


def is_keyed(line: str) -> bool:
    """Whether a line of JSON is of a key: one name, with an object or an array of objects."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return False
    values = list(parsed.values()) if isinstance(parsed, dict) else []
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return len(values) == 1 and bool(rows) and all(isinstance(row, dict) for row in rows)


def keyed_rows(lines: Mapping[str, pl.Series], key: Sequence[str]) -> pl.LazyFrame:
    """Parse lines that are of a key each, as other systems write them; returns the key's columns as text, and those of the objects.

    Args:
        lines: lines by file.
        key: columns of the key. One of several columns is the text of a JSON array of its values.

    Raises:
        ValueError: a line has another form; names the first one by file and number.

    Example:
        >>> lines = {"totals.jsonl": pl.Series(['{"Watch": {"models": ["a", "b"], "quantity": 1929}}'])}
        >>> keyed_rows(lines, ["item"]).collect().row(0)
        ('Watch', ['a', 'b'], 1929)
    """
    text = "\n".join(_rows_in_line(file, content) for file, content in lines.items())
    frame = pl.read_ndjson(text.encode(), infer_schema_length=None).explode("#rows")
    values = (
        [pl.col("#key")]
        if len(key) == 1
        else [pl.col("#key").str.json_path_match(f"$[{position}]") for position in range(len(key))]
    )
    columns = (value.alias(name) for value, name in zip(values, key, strict=True))
    return frame.select(*columns, "#rows").unnest("#rows").lazy()


def _rows_in_line(file: str, lines: pl.Series) -> str:
    """Rewrite the lines of a file as objects with the fields `#key` and `#rows`."""
    parts = lines.rename("line").to_frame().with_row_index("number", 1).filter(pl.col("line").str.strip_chars() != "")
    parts = parts.with_columns(pl.col("line").str.extract_groups(_KEYED).struct.rename_fields(["key", "rows"]))
    parts = parts.unnest("line")
    if (wrong := parts.filter(pl.col("rows").is_null())).height:
        raise ValueError(f'{file}: line {wrong["number"][0]} is not {{"<key>": {{…}}}}, as the first one is')
    rows = pl.when(pl.col("rows").str.starts_with("[")).then("rows").otherwise(pl.format("[{}]", "rows"))
    line = pl.concat_str(pl.lit('{"#key":'), "key", pl.lit(',"#rows":'), rows, pl.lit("}"))
    return "\n".join(parts.select(line).to_series())


def _as_json_type(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Convert a value to a type that JSON has."""
    if isinstance(kind, pl.Datetime):
        utc = value.dt.convert_time_zone("UTC") if kind.time_zone else value
        return utc.dt.strftime(ISO_FORMAT.replace("%.6f", "%.9f") if kind.time_unit == "ns" else ISO_FORMAT)
    if isinstance(kind, pl.Binary):
        return value.bin.encode("base64")
    # Readers parse JSON numbers as doubles: a decimal would lose its last digits.
    if isinstance(kind, pl.Decimal | pl.Date | pl.Time):
        return value.cast(pl.String)
    if isinstance(kind, pl.List) and kind.inner is not None and _needs_conversion(kind.inner):
        return value.list.eval(_as_json_type(pl.element(), _instance(kind.inner)))
    if isinstance(kind, pl.Struct) and _needs_conversion(kind):
        return value.struct.with_fields(
            _as_json_type(pl.field(field.name), _instance(field.dtype)).alias(field.name) for field in kind.fields
        )
    return value


def _needs_conversion(kind: object) -> bool:
    """Whether a type contains one that JSON does not have."""
    if isinstance(kind, pl.List):
        return _needs_conversion(kind.inner)
    if isinstance(kind, pl.Struct):
        return any(_needs_conversion(field.dtype) for field in kind.fields)
    return isinstance(kind, pl.Datetime | pl.Binary | pl.Decimal | pl.Date | pl.Time)


def _instance(kind: object) -> pl.DataType:
    assert isinstance(kind, pl.DataType)  # noqa: S101 - types in a schema are never classes
    return kind
