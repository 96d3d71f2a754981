"""Read the series of the Numenta Anomaly Benchmark from a folder: `category/series.csv`, gzipped or not.

The folder also has `windows.json`, with the first and last time of each labelled window for each series
(`category/series.csv`).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from keyfold import KeyfoldError
from spark_jobs.streams import METRICS

WINDOWS = "windows.json"
_ENDINGS = (".csv.gz", ".csv")


@dataclass(frozen=True)
class LabelledSeries:
    """A series and its windows.

    Attributes:
        key: its path in the folder, without extension.
        readings: `key`, `timestamp` (taken as UTC) and `value`, in the order of the file.
        windows: first and last row of each window.
    """

    key: str
    readings: pl.DataFrame
    windows: tuple[tuple[int, int], ...]

    @property
    def category(self) -> str:
        return self.key.split("/", maxsplit=1)[0]


def read_corpus(folder: Path) -> list[LabelledSeries]:
    """Read all series below a folder, in the order of their keys.

    Raises:
        KeyfoldError: there is no such folder, no `windows.json`, no series, or a series does not fit its windows.
    """
    if not folder.is_dir():
        raise KeyfoldError(f"no folder {folder}: give the folder of the benchmark's series with --data")
    if not (folder / WINDOWS).is_file():
        raise KeyfoldError(f"no {WINDOWS} in {folder}: it has the labelled windows of each series")
    windows = json.loads((folder / WINDOWS).read_text(encoding="utf-8"))
    files = {_key(path, folder): path for ending in _ENDINGS for path in sorted(folder.glob(f"*/*{ending}"))}
    if not files:
        raise KeyfoldError(f"no series in {folder}: expected category/series.csv or category/series.csv.gz")
    return [_read(key, files[key], windows) for key in sorted(files)]


def _key(path: Path, folder: Path) -> str:
    relative = path.relative_to(folder).as_posix()
    return next(relative.removesuffix(ending) for ending in _ENDINGS if relative.endswith(ending))


def _read(key: str, path: Path, windows: dict[str, list[list[str]]]) -> LabelledSeries:
    if f"{key}.csv" not in windows:
        raise KeyfoldError(f"{path} has no entry {key}.csv in {WINDOWS}; a series without windows has an empty list")
    rows = pl.read_csv(path, schema_overrides={"timestamp": pl.String, "value": pl.Float64})
    kind = pl.Datetime("us", "UTC")
    readings = rows.select(
        pl.lit(key).alias("key"), pl.col("timestamp").str.to_datetime(time_unit="us", time_zone="UTC"), "value"
    )
    rows_of = {}
    for row, moment in enumerate(readings["timestamp"].to_list()):
        rows_of.setdefault(moment, row)
    found = []
    for limits in windows[f"{key}.csv"]:
        first, last = (rows_of.get(moment) for moment in pl.Series(limits).str.to_datetime().cast(kind).to_list())
        if first is None or last is None:
            raise KeyfoldError(
                f"{path} has no row at {' or '.join(limits)}, where {WINDOWS} has a window begin and end"
            )
        found.append((first, last))
    return LabelledSeries(key, readings.select(METRICS.schema.names), tuple(found))
