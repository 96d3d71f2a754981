"""Make a keyed job that finds patterns (`pattern_job`).

State has the events ahead of the watermark, the events that may still begin a match (`open`, with a row for each such pattern),
and the number of processed events of each key in the watermark's hour. Events that can no longer match are removed: the
`deadline` of an open event is the end of its time.

An event at or behind the watermark before the batch is late, even if its key has state: its possible matches are decided.

Most events match nothing. For the conservation check, the table `<job>_checked` has the number of processed events of each
hour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, meaning_of, passed_on, required, unit_of
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, JobTable, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.job.tables import Append, names_of
from keyfold.operators.patterns.pattern_step import (
    CHECKED,
    COUNTED,
    EVENTS,
    FIRST_TIME,
    HOUR_START,
    LAST_TIME,
    PATTERN,
    ROLE,
    WAITING,
    PatternStep,
)
from keyfold.operators.patterns.vocabulary import FIRST, LAST, Pattern, Without, conditions, relation
from keyfold.stream import TIMESTAMP, Stream


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
        name: name of the job and its table; `<name>_checked` has the number of processed events.
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
    checked = f"{name}_checked"
    # All events, with and without a match, are counted in `<job>_checked`.
    counts = Append(
        _checked(events, key, event_time),
        name=checked,
        events=pl.col(EVENTS).sum(),
        description=f"Number of events that `{name}` has processed, by key and hour; most match nothing.",
    )
    return KeyedJob(
        name,
        replace(source, columns=events, final_at=STEP_DECIDES),
        key,
        State(
            _state(events, key),
            events=(pl.col(ROLE) == WAITING).sum() + pl.col(CHECKED).sum(),
            # A key has one count, and any number of waiting and open events.
            one_per_key=pl.col(ROLE) == COUNTED,
        ),
        PatternStep(tuple(events.names), key, event_time, dict(patterns), tuple(keep), checked),
        [Append(_output(events, key, event_time, patterns, keep), events=pl.lit(0)), counts],
        closes_in_order=True,
        **settings,
    )


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
    taken = {
        PATTERN,
        ROLE,
        CHECKED,
        HOUR_START,
        EVENTS,
        DEADLINE,
        PROCESSING_DEADLINE,
        *(f"{FIRST}{name}" for name in wanted),
    }
    taken |= {FIRST_TIME, LAST_TIME, *(f"{LAST}{name}" for name in keep)}
    if reserved := sorted(taken & set(wanted)):
        raise Misconfigured(
            f"{where}: the stream has a column {', '.join(reserved)}, a name that the job needs for itself"
        )
    return set(wanted)


def _state(events: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """Return the columns of state; see the roles of its rows in `pattern_step`."""
    columns = [field if field.name in key else field.with_nullable(True) for field in events]
    return pa.schema(
        [
            pa.field(ROLE, pa.string(), nullable=False),
            *columns,
            pa.field(PATTERN, pa.string()),
            pa.field(CHECKED, pa.int64()),
            pa.field(DEADLINE, TIMESTAMP),
        ]
    )


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


def _checked(events: pa.Schema, key: Sequence[str], event_time: str) -> pa.Schema:
    hour, number = "Start of an hour of event time (UTC)", "Number of processed events of that hour"
    return pa.schema(
        [
            *passed_on(pa.schema([events.field(name) for name in key])),
            required(HOUR_START, TIMESTAMP, hour, lineage=(event_time,)),
            required(EVENTS, pa.int64(), number, lineage=(event_time,)),
        ]
    )
