"""What becomes of the events that a call changes, and what it has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from keyfold.lakehouse.file_changes import POSITION, Rows
from keyfold.runs.jobs import JobRun
from keyfold.state.differences import Counts
from keyfold.stream import Stream


@dataclass(frozen=True)
class Change:
    """What becomes of the events that are chosen.

    Attributes:
        kind: whether they are replaced, moved to quarantine, or erased, also from quarantine and history.
        right: of a correction, the right events, with their ids, or with `#file` and `#line`.
    """

    kind: Literal["corrected", "quarantined", "erased"]
    right: pl.DataFrame = field(default_factory=pl.DataFrame)

    def changed(self, stream: Stream, rows: pl.DataFrame) -> pl.DataFrame:
        """Return those of the chosen rows that change; of a correction with the new value of each column as `COLUMN#new`."""
        if self.kind != "corrected":
            return rows
        key = ["#file", "#line"] if "#file" in rows.columns else list(stream.event_id)
        both = rows.join(self.right, on=key, suffix="#new", maintain_order="left")
        values = [name for name in stream.schema.names if name not in key]
        return both.filter(
            pl.any_horizontal(False, *(pl.col(name).ne_missing(pl.col(f"{name}#new")) for name in values))
        )

    def after(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return changed rows as they are afterwards."""
        new = {name.removesuffix("#new"): pl.col(name) for name in rows.columns if name.endswith("#new")}
        return (
            rows.with_columns(**new).drop(pl.selectors.ends_with("#new")) if self.kind == "corrected" else rows.clear()
        )

    def of_file(self, rows: pl.DataFrame) -> Rows:
        """Return the function that makes what becomes of all rows of a file."""
        if self.kind == "corrected":
            right = self.after(rows).drop("#file", "#line", strict=False).lazy()
            return lambda stored: stored.update(right, on=POSITION, how="left", include_nulls=True)
        gone = rows.select(POSITION).lazy()
        return lambda stored: stored.join(gone, on=POSITION, how="anti", maintain_order="left")


@dataclass(frozen=True)
class TableChange:
    """How a correction changes a table: the counts, and the first rows that differ, none if a column is private."""

    counts: Counts
    rows: pl.DataFrame


@dataclass(frozen=True)
class EventsChanged:
    """What a call has changed, or without `yes` would change.

    Attributes:
        streams: names of the streams.
        rows: number of changed rows by place: `events.STREAM`; of an erasure also `quarantine.STREAM`, `names of landing files` and
            `keys in monitoring.edits`.
        before, after: by stream, the first of these events as they were, and as they are now, with private values masked.
        jobs: the jobs that are computed again, each after all jobs that it reads.
        runs: their refreshes; none without `yes`.
        tables: of a correction, how each table of these jobs differs from the live one before.
        files_deleted: of an erasure, the number of deleted files of the tables' histories.
        not_searched: of an erasure, what a person should check: places outside of the tables, and what could not be searched in them.
    """

    streams: tuple[str, ...]
    rows: Mapping[str, int]
    before: Mapping[str, pl.DataFrame]
    after: Mapping[str, pl.DataFrame]
    jobs: tuple[str, ...]
    runs: tuple[JobRun, ...] = ()
    tables: Mapping[str, TableChange] = field(default_factory=dict)
    files_deleted: int = 0
    not_searched: tuple[str, ...] = ()
