"""Say why a key has no row in a table: it is open, late, left out, in quarantine, not read yet, or has never landed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError, counted
from keyfold.ingestion.inspection import all_known_files
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.listing import source_place
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.file_changes import numbered_rows
from keyfold.lakehouse.presence import named_files
from keyfold.runs.explaining.comparison import Subject
from keyfold.runs.explaining.explanation import ExplainedBatch, ExplainedEvent, Row
from keyfold.runs.quarantine_search import FOUND, search_lines
from keyfold.stream import Stream

_LONGEST = 120


def why_no_row(
    subject: Subject,
    state: pl.DataFrame,
    batches: Sequence[ExplainedBatch],
    waiting: Sequence[ExplainedEvent],
    left_out: int,
    lines: Sequence[Row],
    watermark: datetime | None,
) -> Iterator[str]:
    """Yield why the key has no row, in a sentence each: the reason that says most comes first.

    Args:
        state: its rows of state now.
        batches, waiting, left_out, lines: as in the explanation.
        watermark: the watermark now.
    """
    job, table = subject.job, subject.table.name
    events = [event for batch in batches for event in batch.events]
    late = sum(event.is_late for event in events)
    if table == job.late_table and events:
        yield f"no late event: {_that(len(events), 'came')} in time"
    if state.height:
        yield f"no row yet: {_until(state, watermark)}"
    if events and late == len(events):
        yield f"no row: {_that(late, 'came')} late, and {'is' if late == 1 else 'are'} in {job.late_table}"
    if events:
        others = sorted({name for batch in batches for name in batch.rows} - {table})
        there = f", but to {', '.join(others)}" if others else ", and nothing is open"
        yield f"no row: the step has read {counted(len(events) - late, 'event')} in time, and wrote none to {table}{there}"
    if waiting:
        run = subject.lakehouse.command("run", job.name)
        yield f"no row yet: {_that(len(waiting), 'waits', 'wait')} for the next run (`{run}`)"
    if lines:
        yield f"no row: quarantined, {counted(len(lines), 'line')}, because {lines[0]['reason']}"
    if left_out:
        yield f"no row: the job leaves out {counted(left_out, 'row')} of this key, for which its `where` is not true"
    searched = [f"{kind}.{stream.name}" for stream in job.streams for kind in ("events", "quarantine")]
    searched += [source.name for source in job.sources if not isinstance(source, Stream)]
    yield f"no row: nothing with this key has landed; it is in none of {', '.join(searched)}"


def _that(count: int, verb: str, plural: str = "") -> str:
    return f"its only event {verb}" if count == 1 else f"all {count:,} events {plural or verb}"


def _until(state: pl.DataFrame, watermark: datetime | None) -> str:
    """Say until when rows of state are open."""
    now = "not set" if watermark is None else f"at {watermark:%Y-%m-%d %H:%M:%S}"
    if DEADLINE in state.columns and isinstance(due := state[DEADLINE].min(), datetime):
        return f"open until the watermark reaches {due:%Y-%m-%d %H:%M:%S} (it is {now})"
    if PROCESSING_DEADLINE in state.columns and isinstance(due := state[PROCESSING_DEADLINE].min(), datetime):
        return f"open until {due:%Y-%m-%d %H:%M:%S} by processing time"
    return f"open, without a timer, until an event of the key ends it (the watermark is {now})"


def quarantined_lines(lakehouse: Lakehouse, stream: Stream, texts: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the quarantined lines of a stream that have values in columns, with file, line and reason.

    Their text is left out if the stream has private columns, whose values it may have.
    """
    table = lakehouse.quarantine(stream.name)
    if not is_table(table):
        return ()
    landings = [
        source_place(lakehouse, source)
        for source in all_known_files(lakehouse, stream.name)
        if not source.startswith(PREFIX)
    ]
    is_found = search_lines(stream, {name: [str(value)] for name, value in texts.items()}, landings) == FOUND
    delta, lines = DeltaTable(str(table)), list[Row]()
    for path in sorted(named_files(delta)):
        rows = numbered_rows(delta, table, path)
        columns = ["reason", "file", "line"] if stream.private else ["reason", "file", "line", "raw"]
        matching = rows.with_columns(is_found.alias("#found")).filter("#found").select(columns).collect()
        lines += (
            matching.with_columns(pl.col("raw").str.head(_LONGEST)).to_dicts()
            if "raw" in columns
            else matching.to_dicts()
        )
    return tuple(lines)


def lines_of_key(subject: Subject) -> tuple[Row, ...]:
    """Return the lines in quarantine that have the key, of all streams whose columns the key is of."""
    lines = list[Row]()
    for stream in subject.job.streams:
        if set(subject.key) <= set(stream.schema.names):
            with suppress(KeyfoldError):  # what cannot be searched explains nothing
                lines += quarantined_lines(subject.lakehouse, stream, subject.key)
    return tuple(lines)
