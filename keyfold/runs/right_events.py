"""Read right events from a file, and say which stored rows they replace: those with their ids, or of their lines."""

from dataclasses import dataclass

import polars as pl

from keyfold.errors import InvalidData, NotFound, counted
from keyfold.ingestion.event_rewrites import rewrites
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.privacy import masked
from keyfold.runs.chosen_events import Chosen, OfLines, WithIds
from keyfold.runs.landed_events import LANDED, corrected_lines, named_lines, stored_events, taken_out
from keyfold.state.making.sources import fitted, open_source, reading
from keyfold.stream import Stream

_NAMED = 3
"""Number of rows that an error names."""


def right_events(lakehouse: Lakehouse, stream: Stream, source: str) -> tuple[Chosen, pl.DataFrame]:
    """Read events in the stream's columns, each of which has a valid value, and say which rows they replace.

    Of a stream without ids, the source has `file` and `line`, and the events that are returned have `#file` and `#line`.

    Raises:
        InvalidData: a row lacks a value, has one that does not fit, breaks a rule of the stream, or names an event that another names.
        NotFound: a file of a line was not read, or is gone.
    """
    kinds: dict[str, pl.DataType] = dict(polars_schema(stream.schema))
    if not stream.event_id:
        if both := [name for name in LANDED if name in kinds]:
            raise InvalidData(
                f"stream {stream.name} has no event_id, and a column {both[0]} of its own: no event can be named"
            )
        kinds |= {"file": pl.String(), "line": pl.Int64()}
    with reading(source):
        content = open_source(lakehouse, source).collect()
        if lacking := [name for name in kinds if name not in content.columns]:
            raise InvalidData(
                f"{source} lacks {', '.join(lacking)}; give all columns of stream {stream.name}, {', '.join(kinds)}; nothing was "
                "changed"
            )
        events = content.select(
            fitted(pl.col(name), content.schema[name], kind).cast(kind).alias(name) for name, kind in kinds.items()
        )
    key = list(stream.event_id or LANDED)
    never_empty = {field.name for field in stream.schema if not field.nullable} | set(key)
    faults = {
        f"{name} is no {kind}": events[name].is_null() & content[name].is_not_null() for name, kind in kinds.items()
    }
    faults |= {f"{name} is empty": events[name].is_null() for name in never_empty}
    faults |= {rule.reason: events.select(rule.broken.fill_null(value=False)).to_series() for rule in stream.rules}
    faults[f"the {'id' if stream.event_id else 'line'} is there twice"] = events.select(key).is_duplicated()
    for fault, is_wrong in faults.items():
        if is_wrong.any():
            rows = ", ".join(str(row + 1) for row in is_wrong.arg_true().head(_NAMED))
            raise InvalidData(
                f"{source}: {fault} in {counted(int(is_wrong.sum()), 'row')} (row {rows}); nothing was changed"
            )
    if stream.event_id:
        return _OfRightIds(events.select(stream.event_id), source), events
    lines = named_lines(lakehouse, stream, [f"{file}:{line}" for file, line in events.select(LANDED).rows()])
    places = pl.DataFrame(lines, {"#file": pl.String, "#line": pl.Int64}, orient="row")
    return _OfRightLines(lines, events.drop(LANDED)), pl.concat([events.drop(LANDED), places], how="horizontal")


@dataclass(frozen=True)
class _OfRightIds(WithIds):
    """The events with the ids of right ones, each of which must be there exactly once."""

    source: str

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        rows = super().rows(lakehouse, stream).sort(stream.event_id)
        absent = self.ids.join(rows, on=stream.event_id, how="anti")
        twice = rows.filter(rows.select(stream.event_id).is_duplicated()).unique(stream.event_id, maintain_order=True)
        for fault, events in (("is not in", absent), ("is several times in", twice)):
            if events.height:
                shown = masked(events.select(stream.event_id).head(1), frozenset(stream.private)).to_dicts()
                raise InvalidData(
                    f"{self.source}: the id of {counted(events.height, 'event')} {fault} events.{stream.name} (such as {shown[0]}); an "
                    "event that is new has to land as any other; nothing was changed"
                )
        return rows


@dataclass(frozen=True)
class _OfRightLines(OfLines):
    """The events of lines, each of which must have one that was not taken out.

    Attributes:
        right: the right events.
    """

    right: pl.DataFrame

    def rows(self, lakehouse: Lakehouse, stream: Stream) -> pl.DataFrame:
        if gone := sorted(taken_out(lakehouse, stream).intersection(self.lines)):
            file, line = gone[0]
            raise NotFound(
                f"the event of line {line} of {file} was taken out of events.{stream.name}; nothing was changed"
            )
        if self._are_corrected(lakehouse, stream):
            return stored_events(lakehouse, stream, ())
        rows = super().rows(lakehouse, stream)
        if rows.height > len(self.lines):
            raise InvalidData(
                f"a line of stream {stream.name} has several events, of which none can be named alone; nothing was changed"
            )
        return rows

    def _are_corrected(self, lakehouse: Lakehouse, stream: Stream) -> bool:
        """Whether the same call has replaced the events, and was cut off before it was finished."""
        begun = [rewrite.at for rewrite in rewrites(lakehouse) if rewrite.kind == "corrected"]
        if not begun or not corrected_lines(lakehouse, stream, min(begun)).issuperset(self.lines):
            return False
        stored = scan_table(lakehouse.events(stream.name))
        lacking = self.right.lazy().join(stored, on=stream.schema.names, how="anti", nulls_equal=True)
        return lacking.collect().is_empty()
