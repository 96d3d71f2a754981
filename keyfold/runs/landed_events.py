"""Name events of a stream without `event_id` by the landing file and the line that they came from, and find their stored rows.

The line is read again, so the file must be as it was when ingest read it. Of several stored rows with the same values, one is taken
for each line: they are interchangeable.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from keyfold.errors import InvalidData, NotFound
from keyfold.ingestion.inspection import all_known_files, known_files
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.listing import source_place
from keyfold.ingestion.parsing import UnreadableFileError, parse_file
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.file_changes import numbered_rows
from keyfold.lakehouse.presence import named_files
from keyfold.lakehouse.reading import scan_table
from keyfold.storage.place import Place, to_place
from keyfold.stream import INGESTED_AT, Stream

LANDED = ("file", "line")
"""Columns of right events that name the ones that they replace."""

_UNTIMED = datetime(9999, 12, 31, tzinfo=UTC)
"""Stands for the arrival of an event, which its line does not say."""

_TAKEN_OUT = "taken out of events."

Line = tuple[str, int]
"""A landing file, as the quarantine names it, and a line from 1."""


def named_lines(lakehouse: Lakehouse, stream: Stream, texts: Sequence[str]) -> list[Line]:
    """Parse names of events, each `FILE:LINE`, with the file's path below the landing folder, or the whole path.

    Raises:
        InvalidData: one has another form, or the file has changed since it was read.
        NotFound: the file was not read, or is gone.
    """
    lines = list[Line]()
    for text in texts:
        file, _, line = text.rpartition(":")
        if not file or not line.isdigit() or not int(line):
            raise InvalidData(
                f"{text!r}: stream {stream.name} has no event_id, so that an event is named by its landing file and line, as in "
                "day1.csv:17"
            )
        lines.append((str(_place_of(lakehouse, stream, file)), int(line)))
    if twice := next((line for line in lines if lines.count(line) > 1), None):
        raise InvalidData(f"line {twice[1]} of {twice[0]} is named twice; name it once")
    return lines


def stored_events(lakehouse: Lakehouse, stream: Stream, lines: Sequence[Line]) -> pl.DataFrame:
    """Read the events of lines again, and find a stored row of each.

    Args:
        lakehouse: the lakehouse.
        stream: the stream, whose ingest is locked.
        lines: the lines, none of whose events was changed since.

    Returns:
        The rows: the stream's columns and `ingested_at`, with `#file` and `#line`, and `POSITION`.

    Raises:
        NotFound: a line is no event, or has one that is not stored any more.
    """
    if not lines:
        return pl.DataFrame(stream.event_schema.empty_table()).with_columns(**_nowhere())
    landed = pl.concat([_landed(lakehouse, stream, file, lines) for file in dict.fromkeys(file for file, _ in lines)])
    table = lakehouse.events(stream.name)
    # The first event with a content takes the first row with it, the second the second.
    nth = pl.int_range(pl.len()).over("#content").alias("#nth")
    asked = landed.select("#file", "#line", _content(stream, is_landed=True)).with_columns(nth)
    wanted, delta = asked["#content"].unique().implode(), DeltaTable(str(table))
    alike = [
        numbered_rows(delta, table, path)
        .with_columns(_content(stream, is_landed=False))
        .explode("#content")
        .filter(pl.col("#content").is_in(wanted))
        .collect()
        for path in sorted(named_files(delta))
    ]
    rows = asked.join(pl.concat(alike).with_columns(nth), ["#content", "#nth"], how="left", maintain_order="left")
    if (absent := rows.filter(pl.col("#path").is_null())).height:
        file, line = absent.select("#file", "#line").row(0)
        raise NotFound(
            f"events.{stream.name} has no event with the values of line {line} of {file} any more: it was erased; nothing was changed"
        )
    return rows.drop("#content", "#nth")


def taken_out_reason(stream: Stream) -> str:
    """Return how the reason of an event begins that was taken out of a stream."""
    return f"{_TAKEN_OUT}{stream.name}"


def taken_out(lakehouse: Lakehouse, stream: Stream) -> set[Line]:
    """Return the lines whose events were taken out into quarantine."""
    if not is_table(table := lakehouse.quarantine(stream.name)):
        return set()
    is_moved = pl.col("reason").str.starts_with(_TAKEN_OUT) & pl.col("line").is_not_null()
    return set(scan_table(table).filter(is_moved).select("file", "line").collect().rows())


def corrected_lines(lakehouse: Lakehouse, stream: Stream, since: datetime | None = None) -> set[Line]:
    """Return the lines whose events were corrected, by all calls, or by those that were decided since a time."""
    table = lakehouse.monitoring("edits")
    if not is_table(table):
        return set()
    edits = scan_table(table).filter(pl.col("what") == "corrected", pl.col("of") == stream.name)
    if since is not None:
        edits = edits.filter(pl.col("at") >= since)
    entries = edits.select("keys").collect().rows()
    return {(key.get("file"), key.get("line")) for (keys,) in entries for key in json.loads(keys)}


def check_as_landed(lakehouse: Lakehouse, stream: Stream, lines: Sequence[Line]) -> None:
    """Check that no event of lines was corrected, so that it has other values than its line.

    Raises:
        InvalidData: one was.
    """
    corrected = corrected_lines(lakehouse, stream)
    for file, line in lines:
        if (file, line) in corrected:
            raise InvalidData(
                f"the event of line {line} of {file} was corrected (monitoring.edits), so that its line does not say its values; erase it "
                "by these, and let the right one land"
            )


def _place_of(lakehouse: Lakehouse, stream: Stream, file: str) -> Place:
    """Return the place of a landing file that was read, and is as it was."""
    for source, paths in all_known_files(lakehouse, stream.name).items():
        if source.startswith(PREFIX):
            continue
        landing = source_place(lakehouse, source)
        path = file.removeprefix(f"{landing}/")
        if path not in paths:
            continue
        place, read = landing / path, known_files(lakehouse, stream.name, landing)[path]
        if not place.exists():
            raise NotFound(
                f"{place} is gone: an event without event_id is found by its line there; nothing was changed"
            )
        if place.stat().st_size != read.size:
            raise InvalidData(
                f"{place} has changed since it was read, so that its lines are others; nothing was changed"
            )
        return place
    raise NotFound(
        f"no file {file} was read into events.{stream.name}: give its path below the landing folder, as in day1.csv:17; nothing was "
        "changed"
    )


def _landed(lakehouse: Lakehouse, stream: Stream, file: str, lines: Sequence[Line]) -> pl.DataFrame:
    """Read the events at lines of a file, with `#file` and `#line`. A time that is the arrival is `_UNTIMED`."""
    wanted = {line for other, line in lines if other == file}
    landings = [source_place(lakehouse, source) for source in all_known_files(lakehouse, stream.name)]
    landing = next(place for place in landings if file.startswith(f"{place}/"))
    frames = list[pl.DataFrame]()
    try:
        for rows in parse_file(stream, to_place(file), _UNTIMED, landing):
            numbered = rows.accepted.with_columns(pl.lit(file).alias("#file"), pl.Series("#line", rows.lines, pl.Int64))
            frames.append(numbered.filter(pl.col("#line").is_in(list(wanted))))
    except UnreadableFileError as error:
        raise InvalidData(f"{file} was read, and cannot be now: {error}; nothing was changed") from None
    events = pl.concat(frames)
    if lacking := sorted(wanted.difference(events["#line"])):
        raise NotFound(
            f"line {lacking[0]} of {file} is no event of {stream.name}: see quarantine.{stream.name}; nothing was changed"
        )
    return events


def _nowhere() -> dict[str, pl.Expr]:
    kinds = {"#file": pl.String(), "#line": pl.Int64(), "#path": pl.String(), "#row": pl.UInt32()}
    return {name: pl.lit(None, kind) for name, kind in kinds.items()}


def _content(stream: Stream, *, is_landed: bool) -> pl.Expr:
    """Return the values of events as a text; of stored ones as a list, also without the time if it is the arrival."""
    kinds = {name: pl.col(name) for name in stream.schema.names}
    # JSON has no NaN.
    floats = {name for name in kinds if pa.types.is_floating(stream.schema.field(name).type)}
    values = {name: column.cast(pl.String) if name in floats else column for name, column in kinds.items()}
    whole = pl.struct([column.alias(name) for name, column in values.items()]).struct.json_encode()
    time = stream.event_time
    if time not in values:
        return (whole if is_landed else pl.concat_list(whole)).alias("#content")
    untimed = pl.struct(
        [pl.lit(None).alias(name) if name == time else column.alias(name) for name, column in values.items()]
    ).struct.json_encode()
    if is_landed:
        return pl.when(pl.col(time) == _UNTIMED).then(untimed).otherwise(whole).alias("#content")
    is_arrival = pl.col(time) == pl.col(INGESTED_AT)
    return pl.when(is_arrival).then(pl.concat_list(whole, untimed)).otherwise(pl.concat_list(whole)).alias("#content")
