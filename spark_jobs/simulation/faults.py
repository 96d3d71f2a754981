"""Make malformed lines from good ones, in the column `line`."""

import polars as pl


def json_field(name: str, value: str) -> pl.Expr:
    """Make a fault that replaces the value of a JSON field, which must not be a list or an object, by another JSON value."""
    return pl.col("line").str.replace(rf'"{name}":("[^"]*"|[^,"}}\]]*)', f'"{name}":{value}')


def json_faults(time: str) -> dict[str, pl.Expr]:
    """Make the faults that JSON lines of any stream may have; `time` is the field with the event time."""
    return {
        "broken JSON": pl.col("line").str.head(40),
        "unreadable time": json_field(time, '"half past nine"'),
        "time in the future": json_field(time, '"2199-12-31T23:59:59Z"'),
    }


def csv_field(position: int, value: str) -> pl.Expr:
    """Make a fault that replaces the value of a CSV field, counted from 0, or from -1 backwards.

    The fields between it and the end from which it is counted must not be quoted.
    """
    if position >= 0:
        return pl.col("line").str.replace(rf"^((?:[^,]*,){{{position}}})[^,]*", f"${{1}}{value}")
    return pl.col("line").str.replace(rf"[^,]*((?:,[^,]*){{{-position - 1}}})$", f"{value}${{1}}")


def csv_time_faults(position: int, future: str) -> dict[str, pl.Expr]:
    """Make the faults of the event time of CSV lines; `future` is a time in the future."""
    return {
        "unreadable time": csv_field(position, "half past nine"),
        "time in the future": csv_field(position, future),
    }
