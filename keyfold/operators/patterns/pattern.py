"""Make a keyed job that finds patterns (`pattern`).

State has the events ahead of the watermark, and a row for each match that has begun, with the columns of its steps so far.
Matches that can no longer become complete are removed: their `deadline` is the end of their time.

An event at or behind the watermark before the batch is late, even if its key has state: its possible matches are decided.

Most events match nothing, so conservation does not look for them in tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, meaning_of, passed_on, required, unit_of
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.operators.ordering import in_order
from keyfold.operators.patterns.matching import Passed, find
from keyfold.operators.patterns.vocabulary import Pattern
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import on_time, step_job, tie_columns
from keyfold.schemas import check_condition, names_of, require
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros

PATTERN, TIME = "pattern", "time"

_Taken = dict[str, dict[str, str]]
"""By step: the columns that are kept of its event, by their name in state and table."""


@operator()
def pattern(
    name: str,
    source: Source,
    patterns: Mapping[str, Pattern],
    *,
    key: str | Sequence[str],
    keep: Sequence[str] = (),
    **settings: Any,
) -> KeyedJob:
    """Make a job that finds patterns in the events of each key of a stream, and writes a row for each match.

    Its table has the key, the name of the `pattern`, and for each step `<step>_time`, the event time of its event, and
    `<step>_<column>` for each column in `keep`. A step that is `Without`, or of other patterns, has none: NULL.

    - **Late events**: those at or behind the watermark: the matches that they could belong to are decided.
    - **Silent keys**: a match that has begun is removed, or written if it ends by `Without`, when its time is over.
    - **State**: per key the waiting events, and one row for each match that has begun and may still become complete.

    Args:
        name: name of the job and its table.
        source: the stream, or its `Input`.
        patterns: the patterns by name.
        key: columns of the key.
        keep: columns of the stream to copy from the event of each step.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: there is no pattern; or a condition, the key or `keep` names a column that the stream does not have, or
            whose name is reserved.

    Example:
        Sales that are taken back within ten minutes.

        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold.operators import Then
        >>> from keyfold import Input, TestHarness
        >>> from spark_jobs.streams import SALES
        >>> quantity = pl.col("quantity")
        >>> back = Then(quantity < 0, where=quantity == -pl.col("sold_quantity"))
        >>> job = pattern(
        ...     "regrets", Input(SALES, delay="5m"), {"regret": Pattern({"sold": quantity > 0, "back": back}, within="10m")},
        ...     key="item", keep=["quantity"],
        ... )
        >>> noon, minutes = datetime(2026, 1, 31, 12, tzinfo=UTC), timedelta(minutes=1)
        >>> sold = {"item": ["tea"] * 3, "time": [noon, noon + minutes, noon + 9 * minutes], "quantity": [2, 3, -2]}
        >>> harness = TestHarness(job)
        >>> harness.batch(pl.DataFrame(sold).select(job.columns.names), advance_to=noon + 60 * minutes).tables["regrets"].select(
        ...     pl.col("sold_time", "back_time").dt.strftime("%H:%M"), "sold_quantity", "back_quantity"
        ... ).rows()
        [('12:00', '12:09', 2, -2)]
    """
    source, key = as_input(source), names_of(key)
    needed, taken = _columns(f"job {name}", source, key, patterns, keep)
    # In the order of the stream's columns, by which ties are ordered.
    readable = _readable(source)
    events = pa.schema(
        [field for field in readable if field.name in needed or field.name in source.refined.new_columns]
    )
    others = [field if field.name in key else field.with_nullable(True) for field in events]
    of_steps = [
        events.field(origin).with_name(column).with_nullable(True)
        for columns in taken.values()
        for column, origin in columns.items()
    ]
    output = _output(events, source, key, patterns, keep)
    state = pa.schema([*others, pa.field(PATTERN, pa.string()), *of_steps, pa.field(DEADLINE, TIMESTAMP)])
    step = _PatternStep(events, key, source.event_time, dict(patterns), taken, tuple(output.names))
    source, tables = replace(source, columns=events, conserved=False), Append(output, events=pl.lit(0))
    return step_job(name, source, key, State(state, events=pl.lit(0)), step, tables, settings)


@dataclass(frozen=True)
class _PatternStep:
    """The step of a job that finds patterns.

    Attributes:
        columns: columns of an event, in the order that breaks ties.
        key: columns of the key.
        event_time: the column of event times.
        patterns: the patterns by name.
        taken: the columns of steps.
        output: the columns of a match.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    event_time: str
    patterns: Mapping[str, Pattern]
    taken: _Taken
    output: tuple[str, ...]

    def __call__(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        """Process a batch: every event waits, is searched, or is late; every match is written once."""
        new, late = on_time(events, self.event_time, clock)
        names = self.columns.names
        came = pl.concat([state.filter(pl.col(PATTERN).is_null()).select(names), new.select(names)])
        has_passed = came[self.event_time] <= clock.watermark
        waiting = came.filter(~has_passed).with_columns(pl.col(self.event_time).alias(DEADLINE))
        others = tie_columns(self.columns, self.key, self.event_time)
        ordered = in_order(came.filter(has_passed), self.key, self.event_time, others)
        passed = Passed(ordered, self.key, to_micros(ordered.events[self.event_time]))
        matches, begun = [state.clear().select(self.output)], [waiting]
        for name, pattern_ in self.patterns.items():
            begun_before = state.filter(pl.col(PATTERN) == name)
            matched = find(pattern_, passed, begun_before, micros(clock.watermark), self._columns_of)
            in_table = [column for column in self.output if column in matched.matches.columns]
            matches.append(matched.matches.select(*in_table, pl.lit(name).alias(PATTERN)))
            ends = pl.col(f"{next(iter(pattern_.steps))}_{TIME}") + pattern_.within
            begun.append(matched.begun.with_columns(pl.lit(name).alias(PATTERN), ends.alias(DEADLINE)))
        # The empty frame gives `state` its columns, in their order; other frames lack some.
        return Step(
            state=pl.concat([state.clear(), *begun], how="diagonal"),
            output=pl.concat(matches, how="diagonal"),
            late=late,
        )

    def _columns_of(self, step: str) -> list[pl.Expr]:
        return [pl.col(origin).alias(name) for name, origin in self.taken[step].items()]


def _columns(
    place: str,
    source: Input,
    key: Sequence[str],
    patterns: Mapping[str, Pattern],
    keep: Sequence[str],
) -> tuple[set[str], _Taken]:
    """Return the columns of the stream that the job needs, and those that are kept of each step's event."""
    if not patterns:
        raise Misconfigured(f"{place}: patterns is empty; give one at least")
    readable = _readable(source)
    names = readable.names
    wanted = dict.fromkeys([*key, *keep, source.event_time], "key, keep")
    own = {
        step: {f"{step}_{name}": name for name in keep} for pattern_ in patterns.values() for step in pattern_.events
    }
    taken = {step: {f"{step}_{TIME}": source.event_time, **columns} for step, columns in own.items()}
    for title, pattern_ in patterns.items():
        for number, (step_name, step) in enumerate(pattern_.then.items()):
            require(
                f"{place}: pattern {title}: {step_name}",
                step.condition,
                pl.Expr,
                "a condition, such as pl.col('n') > 3",
            )
            used = [*step.condition.meta.root_names()]
            for name in [] if step.where is None else step.where.meta.root_names():
                # `paid_x` is the column x of the event of the step `paid`, unless the stream has a column of that very name.
                before = [] if name in names else list(pattern_.steps)[:number]
                of = next((step for step in before if name.removeprefix(f"{step}_") in (*names, TIME)), None)
                if of is not None:
                    taken[of].setdefault(name, name.removeprefix(f"{of}_"))
                used.append(name if of is None else taken[of][name])
            wanted |= dict.fromkeys(used, f"pattern {title}")
    if strangers := [f"{name} ({owner})" for name, owner in wanted.items() if name not in names]:
        raise Misconfigured(
            f"{place}: stream {source.stream.name} has no column {', '.join(strangers)}; it has {', '.join(names)}; and "
            "`where` has those of earlier steps, with the step's name before them"
        )
    for title, pattern_ in patterns.items():
        for step_name, step in pattern_.then.items():
            check_condition(f"{place}: pattern {title}: {step_name}", step.condition, readable)
    if twice := [name for name in keep if name in (*key, source.event_time)]:
        raise Misconfigured(f"{place}: keep has {', '.join(twice)}, which is in every row without it; leave it out")
    names_in_state = [
        *wanted,
        PATTERN,
        DEADLINE,
        PROCESSING_DEADLINE,
        *(column for columns in taken.values() for column in columns),
    ]
    if reserved := sorted({name for name in names_in_state if names_in_state.count(name) > 1}):
        raise Misconfigured(
            f"{place}: the stream or another step has a column {', '.join(reserved)} too; give the step another name"
        )
    return set(wanted), taken


def _readable(source: Input) -> pa.Schema:
    """Return the columns of the stream, in its order, and those that are made of them."""
    derived = {name: source.schema.field(name) for name in source.refined.new_columns}
    stored = {field.name: field for field in source.stream.event_schema}
    return pa.schema([*(stored | derived).values()])


def _output(
    events: pa.Schema, source: Input, key: Sequence[str], patterns: Mapping[str, Pattern], keep: Sequence[str]
) -> pa.Schema:
    looked_at = [name for name in events.names if name not in key]
    steps = dict.fromkeys(step for pattern_ in patterns.values() for step in pattern_.events)
    # NULL in matches of other patterns.
    may_lack = {step: any(step not in pattern_.events for pattern_ in patterns.values()) for step in steps}
    times = [
        column(
            f"{step}_{TIME}",
            TIMESTAMP,
            f"Event time of its {step} event (UTC)" + ("; NULL if the pattern has none" if may_lack[step] else ""),
            lineage=(source.event_time,),
            nullable=may_lack[step],
        )
        for step in steps
    ]
    copied = [
        column(
            f"{step}_{name}",
            events.field(name).type,
            f"Of its {step} event: {meaning_of(events.field(name)) or name}",
            unit=unit_of(events.field(name)),
            lineage=lineage_of(events.field(name)) or (name,),
            nullable=events.field(name).nullable or may_lack[step],
        )
        for name in keep
        for step in steps
    ]
    return pa.schema(
        [
            *passed_on(pa.schema([events.field(name) for name in key])),
            required(PATTERN, pa.string(), f"Name of the pattern: {', '.join(patterns)}", lineage=looked_at),
            *times,
            *copied,
        ]
    )
