"""Read the events of a key from a job's input tables, and find the batch of each.

The statistics of files say which of them can have the key, or the times that bound the search. The batch of an event follows from its
arrival, since a run reads all that had arrived; where a table has no arrivals, or two runs read some of one arrival, from the version
of the table that its file came with; and of a file that maintenance has written since, from the event's time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.keyed.calling.harness import as_read
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import tagged
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.input_tables import input_tables
from keyfold.keyed.rows.codec import conform, polars_schema, with_plain_floats
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.log_changes import snapshot
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT
from keyfold.stream.refined import expression_of
from keyfold.times import micros

_PATH, _ARRIVED = "#path", "#arrived"
_BY_TIME = -1

Span = tuple[datetime | None, datetime | None]
"""Times of events, both inclusive; None where it is open."""


@dataclass(frozen=True)
class KeyEvents:
    """Events of a key.

    Attributes:
        events: the events in the job's columns, in the order of their batches.
        inputs: the input of each.
        times: the time of each, by which the job goes.
        arrivals: the arrival of each; None where the table does not say it.
        stored: the row of each in its table, without the columns that ingest adds; private values are there.
        batches: the position of the batch of each among the clocks; beyond them, of one that no run has read yet.
        left_out: number of rows with the key for which the condition of their input is not true.
        by_time: number of events whose batch is known by their time only.
    """

    events: pl.DataFrame
    inputs: list[str]
    times: list[datetime]
    arrivals: list[datetime | None]
    stored: list[dict[str, Any]]
    batches: np.ndarray
    left_out: int
    by_time: int


def events_of_key(
    lakehouse: Lakehouse, job: KeyedJob, key: Mapping[str, object], clocks: pl.DataFrame, span: Span = (None, None)
) -> KeyEvents:
    """Read the events of a key, and find their batches.

    Args:
        job: the job, with the parameters of its live generation.
        key: the value of each column of the key.
        clocks: the clocks of the job's batches (`Generation.clocks`).
        span: only events of these times are read.
    """
    places, left_out, by_time = input_tables(lakehouse, job), 0, 0
    frames, rows, kinds = list[pl.DataFrame](), list[dict[str, Any]](), polars_schema(job.columns)
    for name, input_ in job.inputs.items():
        if not is_table(places[input_.table]):
            continue
        stored = _stored(places[input_.table], input_, _has_key(job, input_, key), span)
        events = as_read(input_, stored)
        is_of_key = pl.all_horizontal(
            pl.col(column).cast(kinds[column]) == pl.lit(value, kinds[column]) for column, value in key.items()
        )
        left_out += stored.height - events.select(pl.col("#row").n_unique()).item()
        events = events.filter(is_of_key)
        batches, of_no_batch = _batches(places[input_.table], input_, events, clocks)
        by_time += of_no_batch
        in_columns = conform(events.select(input_.schema.names), input_.schema, "events")
        numbers = pl.int_range(len(rows), len(rows) + events.height, eager=True)
        rows += stored[events["#row"]].drop("#row", _PATH, _ARRIVED, INGESTED_AT, strict=False).to_dicts()
        frames.append(
            tagged(job.inputs, name, with_plain_floats(in_columns), kinds).with_columns(
                pl.lit(name).alias("#input"),
                events[input_.event_time].alias("#time"),
                events[_ARRIVED],
                pl.Series("#batch", batches, pl.Int64),
                numbers.alias("#number"),
            )
        )
    columns = {"#input": pl.String, "#time": _TIME, _ARRIVED: _TIME, "#batch": pl.Int64, "#number": pl.Int64}
    ordered = pl.concat([pl.DataFrame(schema={**kinds, **columns}), *frames]).sort(
        "#batch", "#time", maintain_order=True
    )
    return KeyEvents(
        ordered.select(list(kinds)),
        ordered["#input"].to_list(),
        ordered["#time"].to_list(),
        ordered[_ARRIVED].to_list(),
        [rows[number] for number in ordered["#number"]],
        ordered["#batch"].to_numpy(),
        left_out,
        by_time,
    )


_TIME = pl.Datetime("us", "UTC")


def _stored(place: Place, input_: Input, has_key: pl.Expr, span: Span) -> pl.DataFrame:
    """Read the rows of an input's table that may be events of a key, whole."""
    time, since, until = input_.stored_time, *span
    files = [
        file
        for file in snapshot(place, time).files
        if not (file.last is not None and since is not None and file.last < micros(since))
        and not (file.first is not None and until is not None and file.first > micros(until))
    ]
    schema = table_schema(place)
    names = [name for name in schema.names if name in input_.stream.event_schema.names or name == INGESTED_AT]
    bounds = [has_key]
    bounds += [pl.col(time) >= since] if since is not None else []
    bounds += [pl.col(time) <= until] if until is not None else []
    scans = [
        scan_in_columns([place / file.path], schema)
        .filter(pl.all_horizontal(bounds))
        .select(*names, pl.lit(file.path).alias(_PATH))
        for file in files
    ]
    rows = pl.concat([scan_in_columns([], schema).select(*names, pl.lit("").alias(_PATH)), *scans]).collect()
    # As a run reads columns that the table lacks.
    lacking = {name: kind for name, kind in polars_schema(input_.stream.event_schema).items() if name not in names}
    rows = rows.with_columns(pl.lit(None, kind).alias(name) for name, kind in lacking.items())
    arrived = pl.col(INGESTED_AT) if INGESTED_AT in rows.columns else pl.lit(None, _TIME)
    return rows.with_columns(arrived.alias(_ARRIVED)).with_row_index("#row")


def table_schema(place: Place) -> pa.Schema:
    """Return the columns of a table."""
    return pa.schema(DeltaTable(str(place)).schema().to_arrow())  # type: ignore[arg-type]


def _has_key(job: KeyedJob, input_: Input, key: Mapping[str, object]) -> pl.Expr:
    """Return a condition on stored rows that is true for all events of a key; also for others, if an event may have several keys."""
    kinds, conditions = polars_schema(job.columns), list[pl.Expr]()
    for column, value in key.items():
        literal, exploded = pl.lit(value, kinds[column]), input_.exploded
        if column in input_.derived:
            conditions.append(expression_of(input_.derived[column]).cast(kinds[column]) == literal)
        elif exploded is not None and exploded.column == column:
            has_value = exploded.values.list.contains(literal)
            may_lack = exploded.values.list.drop_nulls().list.len().fill_null(0) == 0
            conditions.append(
                (has_value | may_lack if exploded.otherwise is not None else has_value).fill_null(value=False)
            )
        elif column == input_.event_time:
            conditions.append(pl.col(input_.stored_time) == literal)
        elif column not in input_.computed:
            # Without a cast, so that the statistics of files exclude most of them.
            conditions.append(pl.col(column) == literal)
    return pl.all_horizontal(pl.lit(value=True), *conditions)


def _batches(place: Place, input_: Input, events: pl.DataFrame, clocks: pl.DataFrame) -> tuple[np.ndarray, int]:
    """Return the position of the batch of each event among the clocks, and how many are known by the time only."""
    if not events.height or not clocks.height:
        return np.full(events.height, clocks.height), 0
    runs = _Runs(place, input_, clocks)
    runs_of = runs.by_arrival(events)
    if (unknown := runs_of == _BY_TIME).any():
        runs_of = np.where(unknown, runs.by_version(events), runs_of)
    times = events[input_.event_time].to_physical().to_numpy()
    is_by_time = runs_of == _BY_TIME
    if is_by_time.any():
        runs_of = np.where(is_by_time, runs.by_time(times), runs_of)
    batches = runs.slice_of(runs_of, times)
    if clocks["batch"][0] < 0:
        # Which of them the batches without clocks had is not known: those that were behind the watermark then.
        is_old = (clocks["run"].to_numpy()[np.minimum(batches, clocks.height - 1)] == clocks["run"][1]) & (
            batches < clocks.height
        )
        batches = np.where(is_old & (times <= micros(clocks["previous_watermark"][1])), 0, batches)
    return batches, int(is_by_time.sum())


class _Runs:
    """What the runs of a job have read of a table, by the clocks of their batches."""

    def __init__(self, place: Place, input_: Input, clocks: pl.DataFrame) -> None:
        self._place, self._input, self._clocks = place, input_, clocks

    def by_arrival(self, events: pl.DataFrame) -> np.ndarray:
        """Return the first batch of the run that had all events up to each one's arrival; `_BY_TIME` where that is not said."""
        name = f"arrived {self._input.table}"
        unknown = np.full(events.height, _BY_TIME)
        if name not in self._clocks.columns or events[_ARRIVED].null_count():
            return unknown
        read = self._clocks.select("generation", "run", at=pl.col(name).to_physical())
        newest = read["at"].fill_null(np.iinfo(np.int64).min).cum_max().to_numpy()
        arrivals = events[_ARRIVED].to_physical().to_numpy()
        batches = np.searchsorted(newest, arrivals, side="left")
        # Two runs have read events of one arrival, if they were between two batches of one ingest run.
        firsts = read.filter(pl.struct("generation", "run").is_first_distinct())["at"].drop_nulls()
        shared = firsts.filter(firsts.is_duplicated()).to_numpy()
        return np.where(np.isin(arrivals, shared), _BY_TIME, batches)

    def by_version(self, events: pl.DataFrame) -> np.ndarray:
        """Return the first batch of the run that read the version with which each event's file came; `_BY_TIME` where it is another."""
        read = (
            self._clocks[f"version {self._input.table}"].fill_null(strategy="forward").fill_null(0).cum_max().to_numpy()
        )
        batches = []
        for path in events[_PATH]:
            version, is_new = self._versions.get(path, (-1, False))
            at = int(np.searchsorted(read, version, side="left")) if version >= 0 else len(read)
            # What was rewritten before the first run's version was all read by it.
            batches.append(at if version >= 0 and (is_new or at == 0) else _BY_TIME)
        return np.array(batches, dtype=np.int64)

    @cached_property
    def _versions(self) -> dict[str, tuple[int, bool]]:
        """The version that added each file, as far as the log goes back, and whether it has new rows."""
        versions: dict[str, tuple[int, bool]] = {}
        log = self._place / "_delta_log"
        for name in sorted(name for name in log.names() if name.endswith(".json") and name[:20].isdigit()):
            for line in (log / name).read_bytes().splitlines():
                if added := json.loads(line).get("add"):
                    versions[unquote(added["path"])] = int(name[:20]), added.get("dataChange", True)
        return versions

    def by_time(self, times: np.ndarray) -> np.ndarray:
        """Return the first batch whose watermark the events at these times do not pass: as if each had come in time."""
        watermarks = self._clocks["watermark"].to_physical().to_numpy()
        return np.searchsorted(watermarks, times - micros(self._input.watermark_delay), side="left")

    def slice_of(self, batches: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the batch of each run whose slice of event time has the event, given the first batch of the run."""
        least = np.iinfo(np.int64).min
        since = self._clocks["since"].to_physical().fill_null(least).to_numpy()
        run = self._clocks.select(pl.struct("generation", "run").rle_id()).to_series().to_numpy()
        ends = np.searchsorted(run, run, side="right")
        slices = batches.copy()
        for at in np.flatnonzero(batches < len(run)):
            start = batches[at]
            # The last slice of the run that begins no later than the event.
            of_run = since[start : ends[start]]
            slices[at] = start + max(0, int(np.searchsorted(of_run, times[at], side="right")) - 1)
        return slices
