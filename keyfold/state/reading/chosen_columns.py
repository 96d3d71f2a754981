"""Choose and rename columns of state for those who read it outside of Keyfold."""

from dataclasses import replace

import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import field_of
from keyfold.state.reading.state_rows import StateRows


def chosen_columns(rows: StateRows, text: str) -> StateRows:
    """Return rows with the key, and some other columns.

    Args:
        rows: rows of a state.
        text: the other columns in their order, separated by commas, each as `COLUMN` or `NAME=COLUMN`.

    Raises:
        Misconfigured: there is no such column, or two would have one name.
    """
    pairs = [pair.strip().rpartition("=") for pair in text.split(",")]
    chosen = [(name.strip() or column.strip(), column.strip()) for name, _, column in pairs]
    for _, column in chosen:
        if not column:
            raise Misconfigured(f"--columns {text!r} lacks a name: write it as COLUMN,NAME=COLUMN")
        field_of(f"--columns {text}: {rows.where}", column, rows.schema)
    of_key = [(name, name) for name in rows.key]
    named = [*of_key, *(pair for pair in chosen if pair not in of_key)]
    names = [name for name, _ in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Misconfigured(f"--columns {text}: {', '.join(twice)} is there twice; the key is always in a row")
    schema = pa.schema([rows.schema.field(column).with_name(name) for name, column in named])
    return replace(rows, schema=schema, columns=dict(named))
