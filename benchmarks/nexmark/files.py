"""Events of Nexmark as files, as they land: NDJSON or Parquet, a folder a kind, a file a chunk in order of arrival."""

import os
from pathlib import Path
from typing import Literal

import polars as pl

from benchmarks.nexmark.events import KINDS, START, Events, arriving

_TIMES = ("dateTime", "expires")
_SIDE_ROWS = 10_000


def write_events(folder: Path, events: Events, form: Literal["ndjson", "parquet"] = "ndjson") -> Path:
    """Write all events; gives the folder, which has one a kind."""
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
    for number, came in enumerate(arriving(events)):
        for kind, rows in came.items():
            path = folder / kind / f"{number:05d}.{form}"
            if form == "parquet":
                rows.write_parquet(path)
            else:
                rows.with_columns(
                    pl.col(one).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ") for one in _TIMES if one in rows.columns
                ).write_ndjson(path)
            # One after the other, however fast they were written: files are read in order of their time.
            at = int(START.timestamp()) + number
            os.utime(path, (at, at))
    return folder


def write_side_input(path: Path) -> Path:
    """Write the small table of query 13."""
    keys = pl.DataFrame({"key": range(_SIDE_ROWS)}, schema={"key": pl.Int64})
    keys.with_columns(value="value " + (pl.col("key") * 7 % _SIDE_ROWS).cast(pl.String)).write_csv(path)
    return path
