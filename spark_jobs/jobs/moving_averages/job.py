"""Write, with each reading of a station, the averages of its last N readings, once there are N.

The window is the last N readings of a station in event time, in any order of arrival: a reading waits in state until the
watermark has passed it. A missing value (NULL or NaN) is ignored in its column's average, which is NULL if all values of the
window are missing.

A session is a sequence of readings at most `timeout` apart; after a longer silence, the next session starts with an empty
window. State has the last N - 1 passed readings of each open session, the session's number of readings, and the waiting
readings. A session ends when the watermark reaches its last reading plus `timeout`, and gives a row in `station_sessions`. A
session that never had enough readings for a row of averages gives one row of those that it had (`TIMEOUT`).

With `timeout_in=processing_time`, a session ends when a run finds that the station's last reading arrived longer than `timeout`
ago, whatever the readings' event times. Waiting readings are processed first; the next reading starts a new session
(`keyed.timeouts`).

A reading at or behind the watermark is late, whatever the state of its station. Everything else depends only on event time, so
any order of arrival within `watermark_delay` and any batch boundaries give the same rows, to the last bit. With
`timeout_in=processing_time`, it also depends on the times of the runs that brought the readings.
"""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from keyfold import JobTemplate, KeyedJob, OutputTable
from keyfold.keyed.job import Delay, Duration, Names, Timeout
from spark_jobs.jobs.moving_averages.tables import KEY, STATION_SESSION, averages_schema, state_schema
from spark_jobs.jobs.moving_averages.windows import Window, move_windows
from spark_jobs.jobs.silence import SilentParameters
from spark_jobs.streams import WEATHER

NUMERIC_COLUMNS = tuple(
    field.name for field in WEATHER.schema if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
)


class MovingAverageParameters(SilentParameters):
    """Parameters of `moving_averages`."""

    n_readings: int = Field(10, ge=1, description="Number of readings in a full window")
    columns: Names = Field(("pressure", "temp"), description="Numeric columns of the stream to average")
    min_readings: int | None = Field(
        None, ge=1, description="Number of readings from which rows are written, up to n_readings; None: n_readings"
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
                f"{', '.join(unknown)} is not a numeric column of {WEATHER.name}, which has {', '.join(NUMERIC_COLUMNS)}"
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
        """The number of readings from which a session gives rows."""
        return self.n_readings if self.min_readings is None else self.min_readings

    @property
    def silence(self) -> Timeout:
        """The timeout that ends a station's session."""
        return Timeout(self.timeout, self.timeout_in)


def build(parameters: MovingAverageParameters) -> KeyedJob:
    """With each reading of a station: the averages of its last N readings and the time they span."""
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
                description="One row per ended session: readings without a silence longer than `timeout`.",
            ),
        ),
        output_events=pl.lit(0),
        state_events=pl.col("n_events").sum(),
        # A station has one open session, whose last reading has the session's count.
        one_per_key=pl.col("session_start").is_not_null() & (pl.col("n_events") > 0),
        # No parameter can be changed by a move: state has only the last `n_readings - 1` readings; a shorter `timeout`
        # would have cut the open session; and with another `min_readings`, a session could give its row of `TIMEOUT`
        # besides others, or no row at all.
        **parameters.settings(),
    )


MOVING_AVERAGES = JobTemplate("moving_averages", MovingAverageParameters, build)
