"""Convert rows of state to lines of JSON, and back: a line for each row, or for each key."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from keyfold.times import ISO_FORMAT

LineFormat = Literal["jsonl", "keyed-json"]

_KEYED = r'^\s*\{\s*("(?:[^"\\]|\\.)*")\s*:\s*(\{.*\}|\[.*\])\s*\}\s*$'


def json_lines(rows: pl.DataFrame, key: Sequence[str], style: LineFormat) -> pl.Series:
    """Convert rows to lines of JSON, without line ends.

    `jsonl` has an object for each row, with all columns. `keyed-json` has an object for each key, `{"<key>": {…}}`, with the
    other columns; for a key with several rows, `{"<key>": [{…}, …]}`. A key of several columns is written as a JSON array.
    Times are ISO 8601 in UTC; decimals and bytes (base64) are text.

    Args:
        rows: the rows; for `keyed-json`, all rows of each key.
        key: columns of the key.
        style: the format.

    Example:
        >>> rows = pl.DataFrame({"item": ["Watch"], "models": [["a", "b"]], "quantity": [1929]})
        >>> json_lines(rows, ["item"], "keyed-json").to_list()
        ['{"Watch":{"models":["a","b"],"quantity":1929}}']
    """
    converted = rows.select(_as_json_type(pl.col(name), kind).alias(name) for name, kind in rows.schema.items())
    if not converted.height:
        return pl.Series([], dtype=pl.String)
    if style == "jsonl":
        return converted.select(pl.struct(pl.all()).struct.json_encode()).to_series()
    values = [name for name in converted.columns if name not in key]
    content = pl.struct(values).struct.json_encode() if values else pl.lit("{}")
    keyed = converted.select(_name(key).alias("name"), content.alias("content"))
    lines = keyed.group_by("name", maintain_order=True).agg("content", pl.len().alias("rows"))
    several = pl.concat_str(pl.lit("["), pl.col("content").list.join(","), pl.lit("]"))
    value = pl.when(pl.col("rows") == 1).then(pl.col("content").list.first()).otherwise(several)
    return lines.select(pl.concat_str(pl.lit("{"), "name", pl.lit(":"), value, pl.lit("}"))).to_series()


def is_keyed(line: str) -> bool:
    """Whether a line of JSON has the format `keyed-json`: one name, with an object or an array of objects."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return False
    values = list(parsed.values()) if isinstance(parsed, dict) else []
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return len(values) == 1 and bool(rows) and all(isinstance(row, dict) for row in rows)


def keyed_rows(lines: Mapping[str, pl.Series], key: Sequence[str]) -> pl.LazyFrame:
    """Parse lines in the format `keyed-json`; returns the key's columns as text, and those of the objects.

    Raises:
        ValueError: a line has another format; names the first one by file and number.

    Example:
        >>> lines = {"totals.jsonl": pl.Series(['{"Watch": {"models": ["a", "b"], "quantity": 1929}}'])}
        >>> keyed_rows(lines, ["item"]).collect().row(0)
        ('Watch', ['a', 'b'], 1929)
    """
    text = "\n".join(_rows_in_line(file, content) for file, content in lines.items())
    frame = pl.read_ndjson(text.encode(), infer_schema_length=None).explode("#rows")
    names = (
        [pl.col("#key")]
        if len(key) == 1
        else [pl.col("#key").str.json_path_match(f"$[{at}]") for at in range(len(key))]
    )
    return (
        frame.select(*(one.alias(name) for one, name in zip(names, key, strict=True)), "#rows").unnest("#rows").lazy()
    )


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


def _name(key: Sequence[str]) -> pl.Expr:
    """Return the key as a JSON string."""
    if len(key) == 1:
        return _json(pl.col(key[0]).cast(pl.String))
    # The text of a JSON array with the values in the order of the columns.
    values = [_json(pl.col(column)) for column in key]
    return _json(pl.concat_str(pl.lit("["), pl.concat_str(values, separator=","), pl.lit("]")))


def _json(value: pl.Expr) -> pl.Expr:
    """Return a value as JSON: encode an object with one field, and cut off its name and braces."""
    return pl.struct(value.alias("v")).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")


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
