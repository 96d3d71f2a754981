"""Write the events of Nexmark as landing files in NDJSON: a folder per kind, a file per chunk in order of arrival."""

import os
from pathlib import Path

import polars as pl

from benchmarks.nexmark.events import KINDS, START, Events, arriving

_TIMES = ("dateTime", "expires")
_SIDE_ROWS = 10_000


def write_events(folder: Path, events: Events) -> Path:
    """Write all events, in a folder per kind; returns the folder."""
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
    for number, came in enumerate(arriving(events)):
        for kind, rows in came.items():
            path = folder / kind / f"{number:05d}.ndjson"
            rows.with_columns(
                pl.col(one).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ") for one in _TIMES if one in rows.columns
            ).write_ndjson(path)
            # Files are read in order of their modification times, which may be equal if files are written quickly.
            at = int(START.timestamp()) + number
            os.utime(path, (at, at))
    return folder


def write_side_input(path: Path) -> Path:
    """Write the small table of query 13; returns its path."""
    keys = pl.DataFrame({"key": range(_SIDE_ROWS)}, schema={"key": pl.Int64})
    keys.with_columns(value="value " + (pl.col("key") * 7 % _SIDE_ROWS).cast(pl.String)).write_csv(path)
    return path
