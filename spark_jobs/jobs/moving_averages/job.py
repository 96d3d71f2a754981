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
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from keyfold import JobTemplate, KeyedJob, OutputTable
from keyfold.keyed.job import Delay, Duration, Names, Timeout
from spark_jobs.jobs.expiry import SilentParameters
from spark_jobs.jobs.moving_averages.tables import KEY, STATION_SESSION, averages_schema, state_schema
from spark_jobs.jobs.moving_averages.windows import Window, move_windows
from spark_jobs.streams import WEATHER

NUMERIC_COLUMNS = tuple(
    field.name for field in WEATHER.schema if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
)


class MovingAverageParameters(SilentParameters):
    """Parameters of `moving_averages`."""

    n_readings: int = Field(10, ge=1, description="Readings in a full window")
    columns: Names = Field(("pressure", "temp"), description="Numeric columns of the stream to average")
    min_readings: int | None = Field(
        None, ge=1, description="Readings from which rows are given, up to n_readings, which None stands for"
    )
    timeout: Duration = Field(timedelta(hours=24), description="Silence that ends a station's session")
    watermark_delay: Delay = Field(
        timedelta(hours=1), description="How far out of order readings may come: one round of hourly readings"
    )

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
    rows = averages_schema(parameters.columns)
    window = Window(parameters.columns, parameters.n_readings, parameters.first_row_at, parameters.silence)

    return KeyedJob(
        name="moving_averages",
        stream=WEATHER,
        key=KEY,
        event_time="time",
        events=reading,
        state=parameters.silence.add_column(state_schema(reading)),
        output=rows,
        step=partial(move_windows, window=window),
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "latest_moving_averages",
                rows,
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
        output_events=pl.lit(0),
        state_events=pl.col("n_events").sum(),
        # The last reading of an open session, which has its count; a station has one such session.
        one_per_key=pl.col("session_start").is_not_null() & (pl.col("n_events") > 0),
        # None is movable: state has no reading beyond `n_readings - 1`; a shorter `timeout` would cut what it has as one
        # session; and by another `min_readings` a session would give its row of `TIMEOUT` besides others, or none at all.
        **parameters.settings(),
    )


MOVING_AVERAGES = JobTemplate(
    "moving_averages",
    "With each reading of a station: the averages of its last N readings and the time they span.",
    MovingAverageParameters,
    build,
)
