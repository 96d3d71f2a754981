"""Make a keyed job that finds patterns (`pattern_job`).

State has the events ahead of the watermark, and the events that may still begin a match, with a row for each such `pattern`. Events
that can no longer match are removed: the `deadline` of an open event is the end of its time.

An event at or behind the watermark before the batch is late, even if its key has state: its possible matches are decided.

Most events match nothing, so conservation does not look for them in tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, meaning_of, passed_on, required, unit_of
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, JobTable, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, names_of
from keyfold.operators.ordering import in_order
from keyfold.operators.patterns import matching
from keyfold.operators.patterns.matching import NO_ROW, Found, Rows, find
from keyfold.operators.patterns.vocabulary import FIRST, LAST, Pattern, Without, conditions, relation
from keyfold.stream import TIMESTAMP, Stream
from keyfold.times import micros, to_micros

PATTERN, FIRST_TIME, LAST_TIME = "pattern", f"{FIRST}time", f"{LAST}time"


def pattern_job(
    name: str,
    source: Source,
    *,
    key: str | Sequence[str],
    patterns: Mapping[str, Pattern],
    keep: Sequence[str] = (),
    **settings: Any,
) -> KeyedJob:
    """Make a job that finds patterns in the events of each key of a stream, and writes a row for each match.

    Its table has the key, the name of the `pattern`, `first_time` and `last_time` of the first and the last event of the match,
    and `first_…` and `last_…` for each column in `keep`. For `Without`, the columns of the last event are NULL.

    Args:
        name: name of the job and its table.
        source: the stream, or its `Input`.
        key: columns of the key.
        patterns: the patterns by name.
        keep: columns of the stream to copy from both events.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: there is no pattern; or a condition, the key or `keep` names a column that the stream does not have, or
            whose name is reserved.

    Example:
        Sales that are taken back within ten minutes.

        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold.operators import FollowedBy
        >>> from keyfold import Input, TestHarness
        >>> from spark_jobs.streams import SALES
        >>> quantity, minutes = pl.col("quantity"), timedelta(minutes=1)
        >>> regret = FollowedBy(
        ...     quantity > 0, quantity < 0, within=10 * minutes, where=quantity == -pl.col("first_quantity")
        ... )
        >>> job = pattern_job(
        ...     "regrets", Input(SALES, delay="5m"), key="item", patterns={"regret": regret}, keep=["quantity"],
        ... )
        >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> sold = {"item": ["tea"] * 3, "time": [noon, noon + minutes, noon + 9 * minutes], "quantity": [2, 3, -2]}
        >>> harness = TestHarness(job)
        >>> harness.batch(pl.DataFrame(sold).select(job.columns.names), advance_to=noon + 60 * minutes).tables["regrets"].select(
        ...     pl.col("first_time", "last_time").dt.strftime("%H:%M"), "first_quantity", "last_quantity"
        ... ).rows()
        [('12:00', '12:09', 2, -2)]
    """
    source, key = as_input(source), names_of(key)
    stream, event_time = source.stream, source.event_time
    known = _known_columns(f"job {name}", stream, key, patterns, keep)
    # In the order of the stream's columns, by which ties are ordered.
    events = pa.schema([field for field in stream.event_schema if field.name in known])
    # An event that waits for the watermark has no pattern.
    others = [field if field.name in key else field.with_nullable(True) for field in events]
    state = pa.schema([*others, pa.field(PATTERN, pa.string()), pa.field(DEADLINE, TIMESTAMP)])
    return KeyedJob(
        name,
        replace(source, columns=events, final_at=STEP_DECIDES, conserved=False),
        key,
        State(state, events=pl.lit(0)),
        _PatternStep(tuple(events.names), key, event_time, dict(patterns), tuple(keep)),
        Append(_output(events, key, event_time, patterns, keep), events=pl.lit(0)),
        closes_in_order=True,
        **settings,
    )


@dataclass(frozen=True)
class _PatternStep:
    """The step of a job that finds patterns.

    Attributes:
        columns: columns of an event, in the order that breaks ties.
        key: columns of the key.
        event_time: the column of event times.
        patterns: the patterns by name.
        keep: columns to copy from the first and the last event of a match.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    event_time: str
    patterns: Mapping[str, Pattern]
    keep: tuple[str, ...]

    def __call__(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        """Process a batch: every event waits, is searched, or is late; every match is written once."""
        is_late = events[self.event_time] <= clock.previous_watermark
        on_time = events.filter(~is_late).select(self.columns)
        came = pl.concat([state.filter(pl.col(PATTERN).is_null()).select(self.columns), on_time])
        has_passed = came[self.event_time] <= clock.watermark
        waiting, passed = came.filter(~has_passed), came.filter(has_passed)
        was_open = state.filter(pl.col(PATTERN).is_not_null()).select(*self.columns, PATTERN)
        matches, still_open = [], []
        looked_at = self._in_order(was_open, passed)
        for name in self.patterns:
            sequence = self._open_for(name, looked_at)
            result = find(self.patterns[name], sequence, micros(clock.watermark))
            matches.append(self._matches(name, sequence.events, result))
            still_open.append(self._open(name, sequence.events[result.open]))
        waiting = waiting.with_columns(pl.col(self.event_time).alias(DEADLINE))
        # The empty frame gives `state` its columns, in their order; other frames lack some.
        return Step(
            state=pl.concat([state.clear(), waiting, *still_open], how="diagonal"),
            output=pl.concat(matches),
            late=events.filter(is_late),
        )

    def _in_order(self, was_open: pl.DataFrame, passed: pl.DataFrame) -> matching.Sequence:
        """Sort the open events of all patterns and the events that the watermark has passed since."""
        came = pl.concat([was_open, passed.with_columns(pl.lit(None, pl.String).alias(PATTERN))])
        ties = [name for name in self.columns if name not in (*self.key, self.event_time)]
        ordered = in_order(came, self.key, self.event_time, ties)
        is_new = ordered.events[PATTERN].is_null().to_numpy()
        return matching.Sequence(ordered.events, ordered.key_number, to_micros(ordered.events[self.event_time]), is_new)

    def _open_for(self, name: str, looked_at: matching.Sequence) -> matching.Sequence:
        """Return the events to search for a pattern: without those that are open for other patterns only."""
        if len(self.patterns) == 1:
            return looked_at
        is_mine = (looked_at.events[PATTERN] == name).fill_null(value=False).to_numpy()
        mine = np.flatnonzero(looked_at.is_new | is_mine)
        events, key_number, time, is_new = looked_at
        return matching.Sequence(events[mine], key_number[mine], time[mine], is_new[mine])

    def _matches(self, name: str, events: pl.DataFrame, matches: Found) -> pl.DataFrame:
        first, last = (
            self._columns_of(events, rows, which) for rows, which in ((matches.first, FIRST), (matches.last, LAST))
        )
        key = events[matches.first].select(*self.key, pl.lit(name).alias(PATTERN))
        return pl.concat([key, first, last], how="horizontal").select(
            *self.key, PATTERN, FIRST_TIME, LAST_TIME, *self._copied_columns
        )

    def _columns_of(self, events: pl.DataFrame, rows: Rows, which: str) -> pl.DataFrame:
        """Return the columns of the first or the last events of matches."""
        columns = events.select(pl.col(self.event_time).alias(f"{which}time"), pl.col(self.keep).name.prefix(which))
        # All of a pattern's matches have a last event, or none has.
        return columns.clear(len(rows)) if (rows == NO_ROW).all() else columns[rows]

    @property
    def _copied_columns(self) -> list[str]:
        """The columns of matches that are copied from events: for each kept column, those of the first and the last event."""
        return [f"{which}{column}" for column in self.keep for which in (FIRST, LAST)]

    def _open(self, name: str, events: pl.DataFrame) -> pl.DataFrame:
        ends = pl.col(self.event_time) + self.patterns[name].within
        return events.with_columns(pl.lit(name).alias(PATTERN), ends.alias(DEADLINE))


def _known_columns(
    where: str, stream: Stream | JobTable, key: Sequence[str], patterns: Mapping[str, Pattern], keep: Sequence[str]
) -> set[str]:
    """Return the columns of the stream that the job needs."""
    if not patterns:
        raise Misconfigured(f"{where}: patterns is empty; give one at least")
    names = stream.event_schema.names
    wanted = dict.fromkeys([*key, *keep, stream.event_time], "key, keep")
    for title, pattern in patterns.items():
        for condition in conditions(pattern):
            wanted |= dict.fromkeys(condition.meta.root_names(), f"pattern {title}")
        of_both = relation(pattern)
        # `first_x` is the column x of the first event, unless the stream has a column of that very name.
        for name in [] if of_both is None else of_both.meta.root_names():
            wanted[name if name in names else name.removeprefix(FIRST)] = f"pattern {title}"
    if strangers := [f"{name} ({what})" for name, what in wanted.items() if name not in names]:
        raise Misconfigured(
            f"{where}: stream {stream.name} has no column {', '.join(strangers)}; it has {', '.join(names)}"
        )
    if twice := [name for name in keep if name in key]:
        raise Misconfigured(
            f"{where}: keep has {', '.join(twice)}, which is of the key and so in every row; leave it out"
        )
    taken = {PATTERN, DEADLINE, PROCESSING_DEADLINE, *(f"{FIRST}{name}" for name in wanted)}
    taken |= {FIRST_TIME, LAST_TIME, *(f"{LAST}{name}" for name in keep)}
    if reserved := sorted(taken & set(wanted)):
        raise Misconfigured(
            f"{where}: the stream has a column {', '.join(reserved)}, a name that the job needs for itself"
        )
    return set(wanted)


def _output(
    events: pa.Schema, key: Sequence[str], event_time: str, patterns: Mapping[str, Pattern], keep: Sequence[str]
) -> pa.Schema:
    looked_at = [name for name in events.names if name not in key]
    # A match of any other pattern has a last event.
    may_end_alone = any(isinstance(pattern, Without) for pattern in patterns.values())
    last_time = "Event time of its last event (UTC)"
    fields = [
        *passed_on(pa.schema([events.field(name) for name in key])),
        required(PATTERN, pa.string(), f"Name of the pattern: {', '.join(patterns)}", lineage=looked_at),
        required(FIRST_TIME, TIMESTAMP, "Event time of its first event (UTC)", lineage=(event_time,)),
        column(
            LAST_TIME,
            TIMESTAMP,
            f"{last_time}; NULL where something did not come" if may_end_alone else last_time,
            lineage=(event_time,),
            nullable=may_end_alone,
        ),
    ]
    for name in keep:
        fields += [
            _of_event(events.field(name), FIRST),
            _of_event(events.field(name), LAST, may_lack=may_end_alone),
        ]
    return pa.schema(fields)


def _of_event(field: pa.Field, which: str, *, may_lack: bool = False) -> pa.Field:
    """Return the column of a match with a column of its first or last event."""
    return column(
        f"{which}{field.name}",
        field.type,
        f"Of its {which.rstrip('_')} event: {meaning_of(field) or field.name}",
        unit=unit_of(field),
        lineage=lineage_of(field) or (field.name,),
        nullable=field.nullable or may_lack,
    )
