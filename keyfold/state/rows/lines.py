"""Rows of state as lines of JSON: a row a line, or a key a line."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from keyfold.times import ISO_FORMAT

LineFormat = Literal["jsonl", "keyed-json"]

_KEYED = r'^\s*\{\s*("(?:[^"\\]|\\.)*")\s*:\s*(\{.*\}|\[.*\])\s*\}\s*$'


def json_lines(rows: pl.DataFrame, key: Sequence[str], style: LineFormat) -> pl.Series:
    """Rows as lines of JSON, without their line ends.

    `jsonl` is an object a row, with all its columns. `keyed-json` is an object a key, `{"<key>": {…}}` with the other
    columns; of a key with several rows, `{"<key>": [{…}, …]}`. A key of several columns is the JSON array of them. Times
    are ISO 8601 in UTC, decimals and bytes (base64) are text.

    Args:
        rows: of whole keys, where lines are of keys.
        key: columns of the key.
        style: the form.

    Example:
        >>> rows = pl.DataFrame({"item": ["Watch"], "models": [["a", "b"]], "quantity": [1929]})
        >>> json_lines(rows, ["item"], "keyed-json").to_list()
        ['{"Watch":{"models":["a","b"],"quantity":1929}}']
    """
    shown = rows.select(_shown(pl.col(name), kind).alias(name) for name, kind in rows.schema.items())
    if not shown.height:
        return pl.Series([], dtype=pl.String)
    if style == "jsonl":
        return shown.select(pl.struct(pl.all()).struct.json_encode()).to_series()
    others = [name for name in shown.columns if name not in key]
    content = pl.struct(others).struct.json_encode() if others else pl.lit("{}")
    keyed = shown.select(_name(key).alias("name"), content.alias("content"))
    lines = keyed.group_by("name", maintain_order=True).agg("content", pl.len().alias("rows"))
    several = pl.concat_str(pl.lit("["), pl.col("content").list.join(","), pl.lit("]"))
    value = pl.when(pl.col("rows") == 1).then(pl.col("content").list.first()).otherwise(several)
    return lines.select(pl.concat_str(pl.lit("{"), "name", pl.lit(":"), value, pl.lit("}"))).to_series()


def is_keyed(line: str) -> bool:
    """Whether a line of JSON has the form `keyed-json`: one name, with an object or an array of objects."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    values = list(found.values()) if isinstance(found, dict) else []
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return len(values) == 1 and bool(rows) and all(isinstance(row, dict) for row in rows)


def keyed_rows(lines: Mapping[str, pl.Series], key: Sequence[str]) -> pl.LazyFrame:
    """The rows of lines in the form `keyed-json`: the key's columns as text, and those of the objects.

    Raises:
        ValueError: a line has another form; names the first of them by file and number.

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
    """The lines of a file with key and rows under names of their own."""
    parts = lines.rename("line").to_frame().with_row_index("number", 1).filter(pl.col("line").str.strip_chars() != "")
    parts = parts.with_columns(pl.col("line").str.extract_groups(_KEYED).struct.rename_fields(["key", "rows"]))
    parts = parts.unnest("line")
    if (wrong := parts.filter(pl.col("rows").is_null())).height:
        raise ValueError(f'{file}: line {wrong["number"][0]} is not {{"<key>": {{…}}}}, as the first one is')
    rows = pl.when(pl.col("rows").str.starts_with("[")).then("rows").otherwise(pl.format("[{}]", "rows"))
    whole = pl.concat_str(pl.lit('{"#key":'), "key", pl.lit(',"#rows":'), rows, pl.lit("}"))
    return "\n".join(parts.select(whole).to_series())


def _name(key: Sequence[str]) -> pl.Expr:
    """The key as a JSON string."""
    if len(key) == 1:
        return _quoted(pl.col(key[0]).cast(pl.String))
    # As an array in text: the values in the order of the columns, each as JSON has it.
    values = [pl.struct(pl.col(column).alias("v")).struct.json_encode().str.slice(5).str.head(-1) for column in key]
    return _quoted(pl.concat_str(pl.lit("["), pl.concat_str(values, separator=","), pl.lit("]")))


def _quoted(text: pl.Expr) -> pl.Expr:
    """Text as a JSON string: what an object of one field shows behind `{"v":`."""
    return pl.struct(text.alias("v")).struct.json_encode().str.slice(5).str.head(-1)


def _shown(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """A value in a type that JSON has."""
    if isinstance(kind, pl.Datetime):
        utc = value.dt.convert_time_zone("UTC") if kind.time_zone else value
        return utc.dt.strftime(ISO_FORMAT.replace("%.6f", "%.9f") if kind.time_unit == "ns" else ISO_FORMAT)
    if isinstance(kind, pl.Binary):
        return value.bin.encode("base64")
    # A JSON number is a double where it is read: a decimal would lose its last digits.
    if isinstance(kind, pl.Decimal | pl.Date | pl.Time):
        return value.cast(pl.String)
    if isinstance(kind, pl.List) and kind.inner is not None and _has_such(kind.inner):
        return value.list.eval(_shown(pl.element(), _instance(kind.inner)))
    if isinstance(kind, pl.Struct) and _has_such(kind):
        return value.struct.with_fields(
            _shown(pl.field(field.name), _instance(field.dtype)).alias(field.name) for field in kind.fields
        )
    return value


def _has_such(kind: object) -> bool:
    """Whether a type holds one that JSON has not."""
    if isinstance(kind, pl.List):
        return _has_such(kind.inner)
    if isinstance(kind, pl.Struct):
        return any(_has_such(field.dtype) for field in kind.fields)
    return isinstance(kind, pl.Datetime | pl.Binary | pl.Decimal | pl.Date | pl.Time)


def _instance(kind: object) -> pl.DataType:
    assert isinstance(kind, pl.DataType)  # noqa: S101 - types in a schema are never classes
    return kind
