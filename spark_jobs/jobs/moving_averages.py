"""Moving averages: with each reading of a station, the averages of its last N, and silence until N are there.

The window is the last N readings of a station in event time, in whatever order they came: a reading waits in state
until the watermark has passed it, and takes its place then. A missing value (NULL or NaN) is left out of its column's
average, which is NULL where all of the window's are missing.

Readings no further apart than `timeout` make a session; a longer silence between two readings ends it, and the next
one begins with an empty window. State holds the last N - 1 passed readings of each open session, with how many it has
had in all, and the readings that wait. A session leaves the state once the watermark has reached its last reading plus
`timeout`, with a row in `station_sessions`; if it never had enough readings for a row of averages, it gives one of what
it held (`TIMEOUT`).

With `timeout_in=processing_time` a session is what comes of a station without a run that finds it silent for `timeout`
since its last reading came: however far apart the readings lie in event time. When it ends, what waits of it takes its
place first, and then it leaves; the next reading begins anew (`keyed.timeouts`).

A reading at or behind the watermark is late, whatever state its station has. All else follows from event time alone, so
that any order of arrival within `watermark_delay` and any split into micro-batches give the same rows, to the last bit; with
`timeout_in=processing_time` from event time and from when the runs were that brought the readings.
"""

from datetime import timedelta

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from spark_jobs.columns import column, unit_of
from spark_jobs.jobs.ordering import in_order
from spark_jobs.jobs.parameters import Delay, Duration, JobParameters, Names
from spark_jobs.jobs.trailing_windows import trailing_means
from spark_jobs.keyed.codec import empty
from spark_jobs.keyed.contract import Clock, JobTemplate, KeyedJob, OutputTable, Step
from spark_jobs.keyed.timeouts import TimeKind, Timeout
from spark_jobs.streams import TIMESTAMP, WEATHER
from spark_jobs.times import micros, to_micros, to_times

_KEY = ("station_id",)

STATION_SESSION = pa.schema(
    [
        column("station_id", pa.string(), "Station that took the readings", made_of=("station_id",), nullable=False),
        column("start_time", TIMESTAMP, "Event time of the first reading (UTC)", made_of=("time",), nullable=False),
        column("end_time", TIMESTAMP, "Event time of the last reading (UTC)", made_of=("time",), nullable=False),
        column("n_readings", pa.int64(), "Readings in all", made_of=("time",), nullable=False),
        column("reason", pa.string(), "TIMEOUT: the station fell silent", made_of=("time",), nullable=False),
    ]
)

NUMERIC_COLUMNS = tuple(
    field.name for field in WEATHER.schema if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
)


class MovingAverageParameters(JobParameters):
    """Parameters of `moving_averages`."""

    n_readings: int = Field(10, ge=1, description="Readings in a full window")
    columns: Names = Field(("pressure", "temp"), description="Numeric columns of the stream to average")
    min_readings: int | None = Field(
        None, ge=1, description="Readings from which rows are given, up to n_readings, which None stands for"
    )
    timeout: Duration = Field(timedelta(hours=24), description="Silence that ends a station's session")
    timeout_in: TimeKind = Field(
        "event_time",
        description="event_time: a silence lies between two readings. processing_time: it lasts from the run that brought "
        "a station's last reading, whatever time that is of",
    )
    watermark_delay: Delay = Field(
        timedelta(hours=1), description="How far out of order readings may come: one round of hourly readings"
    )
    idle_after: Duration = Field(
        timedelta(hours=2),
        description="Processing time without new readings after which runs advance event time; more than lies between "
        "two readings",
    )

    added_later = frozenset({"timeout_in"})

    @field_validator("columns")
    @classmethod
    def _are_numeric(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [column for column in columns if column not in NUMERIC_COLUMNS]:
            raise ValueError(
                f"{', '.join(unknown)} is no numeric column of {WEATHER.name}, which has {', '.join(NUMERIC_COLUMNS)}"
            )
        if len(set(columns)) != len(columns):
            raise ValueError("a column is named twice")
        return columns

    @model_validator(mode="after")
    def _fit_the_window(self) -> "MovingAverageParameters":
        if self.first_row_at > self.n_readings:
            raise ValueError(f"min_readings is {self.min_readings}; it must be at most n_readings, {self.n_readings}")
        return self

    @property
    def first_row_at(self) -> int:
        """How many readings a session has when it gives its first row."""
        return self.n_readings if self.min_readings is None else self.min_readings

    @property
    def silence(self) -> Timeout:
        """What ends a station's session."""
        return Timeout(self.timeout, self.timeout_in)


def build(parameters: MovingAverageParameters) -> KeyedJob:
    """Make the job of its parameters."""
    values = [WEATHER.schema.field(column) for column in parameters.columns]
    reading = pa.schema([WEATHER.schema.field("station_id"), WEATHER.schema.field("time"), *values])
    averages = _averages(parameters.columns)

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        return move_windows(state, events, clock, parameters)

    return KeyedJob(
        name="moving_averages",
        stream=WEATHER.name,
        key=_KEY,
        event_time="time",
        watermark_delay=parameters.watermark_delay,
        events=reading,
        state=parameters.silence.add_column(_state(reading)),
        output=averages,
        step=step,
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "latest_moving_averages",
                averages,
                "upsert",
                ("station_id",),
                description="The latest row of each station.",
            ),
            OutputTable(
                "station_sessions",
                STATION_SESSION,
                events=pl.col("n_readings").sum(),
                description="One row a stretch of readings without a silence longer than `timeout`, when it has ended.",
            ),
        ),
        idle_after=parameters.idle_after,
        key_groups=parameters.key_groups,
        output_events=pl.lit(0),
        state_events=pl.col("n_events").sum(),
        # The last reading of an open session, which has its count; a station has one such session.
        one_per_key=pl.col("session_start").is_not_null() & (pl.col("n_events") > 0),
        # None is movable: state has no reading beyond `n_readings - 1`; a shorter `timeout` would cut what it has as one
        # session; and by another `min_readings` a session would give its row of `TIMEOUT` besides others, or none at all.
        parameters=parameters.recorded(),
    )


MOVING_AVERAGES = JobTemplate(
    name="moving_averages",
    description="With each reading of a station: the averages of its last N readings and the time they span.",
    parameters=MovingAverageParameters,
    build=build,
)


def move_windows(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: MovingAverageParameters) -> Step:
    """The step: see the module's text. Every reading waits, is counted in an open session, has left in one, or is late."""
    is_late = events["time"] <= clock.late_watermark
    late = events.filter(is_late)
    on_time = events.filter(~is_late) if late.height else events
    over, state = parameters.silence.part(state, _KEY, clock)
    coming = on_time.with_columns(
        session_start=pl.lit(None, pl.Datetime("us", "UTC")), n_events=pl.lit(1, pl.Int64), deadline=pl.col("time")
    )
    rows = pl.concat([state.select(coming.columns), coming])
    is_due = (rows["deadline"] <= clock.watermark).fill_null(value=False)
    waits = rows["session_start"].is_null() & ~is_due
    ended = [_Stations(over.select(coming.columns), clock, parameters, is_over=True)] if over.height else []
    moved = [_Stations(rows.filter(~waits), clock, parameters)] if is_due.any() else []
    # Those that have ended come first: their stations may have begun anew.
    averages = pl.concat([empty(_averages(parameters.columns)), *(one.averages() for one in (*ended, *moved))])
    sessions = [empty(STATION_SESSION), *(one.closed_sessions() for one in (*ended, *moved))]
    if moved:
        rows = pl.concat([moved[0].state(), rows.filter(waits)])
    latest = averages.filter(_IS_LAST_OF_STATION)
    if ended:
        # One that has begun anew has a row of each.
        latest = latest.unique(_KEY, keep="last", maintain_order=True)
    return Step(
        state=parameters.silence.renew(rows, state, on_time, _KEY, clock),
        output=averages,
        late=late,
        side={
            "latest_moving_averages": latest,
            "station_sessions": pl.concat(sessions),
        },
    )


class _Stations:
    """All readings in hand that the watermark has passed, station by station in time order, cut into sessions.

    Arrays named by the row have one value a reading; `session` leads from a reading to its session, whose arrays are
    `first` and `last` (its readings in hand), `n_events` (its readings so far) and `closed`.

    Args:
        passed: the readings.
        clock: of the batch.
        parameters: of the job.
        is_over: whether their stations have fallen silent in processing time, so that every session has ended.
    """

    def __init__(
        self, passed: pl.DataFrame, clock: Clock, parameters: MovingAverageParameters, *, is_over: bool = False
    ) -> None:
        self._parameters = parameters
        ordered = in_order(passed, _KEY, "time", parameters.columns)
        self._readings, begins = ordered.events, ordered.begins_key
        self._times = to_micros(self._readings["time"])
        timeout, watermark = micros(parameters.timeout), micros(clock.watermark)
        self._in_event_time = parameters.silence.in_event_time
        begins_session = begins.copy()
        if self._in_event_time:
            begins_session[1:] |= np.diff(self._times) > timeout
        self._first = np.flatnonzero(begins_session)
        self._last = np.append(self._first[1:] - 1, len(self._times) - 1)
        self._n_events = np.add.reduceat(self._readings["n_events"].to_numpy(), self._first)
        self._deadline = self._times[self._last] + timeout
        # A session is also over where a later one of its station has begun, however far the watermark is.
        followed = np.append(~begins[self._first[1:]], False)
        self._closed = (
            (followed | (self._deadline <= watermark)) if self._in_event_time else np.full(len(followed), is_over)
        )
        self._never_filled = self._closed & (self._n_events < parameters.first_row_at)

    def averages(self) -> pl.DataFrame:
        """One row a reading that has just passed, where its session has enough; of sessions that never had, one row."""
        session, position = self._positions()
        count = position + (self._n_events - (self._last - self._first))[session]
        gives_row = self._readings["session_start"].is_null().to_numpy() & (count >= self._parameters.first_row_at)
        gives_row[self._last[self._never_filled]] = True
        rows = np.flatnonzero(gives_row)
        n_readings = np.minimum(count[rows], self._parameters.n_readings)
        return pl.DataFrame(
            {
                "station_id": self._readings["station_id"].gather(rows),
                "start_time": to_times(self._times[rows - n_readings + 1]),
                "end_time": to_times(self._times[rows]),
                **{f"{column}_avg": self._average(column, position, rows) for column in self._parameters.columns},
                "n_readings": n_readings,
            }
        ).with_columns(
            reason=pl.when(pl.col("n_readings") == self._parameters.n_readings)
            .then(pl.lit("WINDOW_FULL"))
            .when(pl.col("n_readings") >= self._parameters.first_row_at)
            .then(pl.lit("WINDOW_FILLING"))
            .otherwise(pl.lit("TIMEOUT"))
        )

    def state(self) -> pl.DataFrame:
        """What open sessions need for the readings to come."""
        session, _ = self._positions()
        from_end = self._last[session] - np.arange(len(session))
        # One reading at least, though a window of one needs none: it has the session's count and deadline.
        rows = np.flatnonzero(~self._closed[session] & (from_end < max(self._parameters.n_readings - 1, 1)))
        session, is_last = session[rows], pl.Series(from_end[rows] == 0)
        return self._readings[rows].with_columns(
            session_start=to_times(self._starts()[session]),
            n_events=pl.when(is_last).then(pl.Series(self._n_events[session])).otherwise(0),
            deadline=pl.when(is_last & self._in_event_time).then(to_times(self._deadline[session])),
        )

    def closed_sessions(self) -> pl.DataFrame:
        closed = self._last[self._closed]
        return pl.DataFrame(
            {
                "station_id": self._readings["station_id"].gather(closed),
                "start_time": to_times(self._starts()[self._closed]),
                "end_time": to_times(self._times[closed]),
                "n_readings": self._n_events[self._closed],
            }
        ).with_columns(reason=pl.lit("TIMEOUT"))

    def _positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Each reading's session, and its place among the session's readings in hand."""
        session = np.repeat(np.arange(len(self._first)), self._last - self._first + 1)
        return session, np.arange(len(session)) - self._first[session]

    def _starts(self) -> npt.NDArray[np.int64]:
        """When each session's first reading was, in hand or not."""
        known = self._readings["session_start"].gather(self._first)
        return to_micros(known.fill_null(to_times(self._times[self._first])))

    def _average(self, column: str, position: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> pl.Series:
        values = self._readings[column].cast(pl.Float64).to_numpy()
        means = trailing_means(values, position, self._parameters.n_readings)
        return pl.Series(means[rows]).fill_nan(None)


def _averages(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema(
        [
            column(
                "station_id", pa.string(), "Station that took the readings", made_of=("station_id",), nullable=False
            ),
            column(
                "start_time",
                TIMESTAMP,
                "Event time of the window's first reading (UTC)",
                made_of=("time",),
                nullable=False,
            ),
            column(
                "end_time",
                TIMESTAMP,
                "Event time of its last reading, which the row came with (UTC)",
                made_of=("time",),
                nullable=False,
            ),
            *(_average_of(WEATHER.schema.field(name)) for name in columns),
            column("n_readings", pa.int64(), "Readings in the window", made_of=("time",), nullable=False),
            column(
                "reason",
                pa.string(),
                "WINDOW_FULL with N readings, WINDOW_FILLING before, TIMEOUT where the station fell silent before its first row",
                made_of=("time",),
                nullable=False,
            ),
        ]
    )


def _average_of(value: pa.Field) -> pa.Field:
    meaning = f"Mean `{value.name}` of the window's readings that have one; NULL where none has"
    return column(f"{value.name}_avg", pa.float64(), meaning, unit=unit_of(value), made_of=(value.name, "time"))


def _state(reading: pa.Schema) -> pa.Schema:
    """A passed reading of an open session (with the session's start), or one that waits (without).

    `n_events` is how many readings a row stands for: 1 where it waits, all of its session's at the session's last.
    """
    return pa.schema(
        [
            *reading,
            pa.field("session_start", TIMESTAMP),
            pa.field("n_events", pa.int64(), nullable=False),
            pa.field("deadline", TIMESTAMP),
        ]
    )


_IS_LAST_OF_STATION = (pl.col("station_id") != pl.col("station_id").shift(-1)).fill_null(value=True)
