"""Write, with each reading of a station, the averages of its last N readings, once there are N.

The window is the last N readings of a station in event time, in any order of arrival: a reading waits in state until the
watermark has passed it (`last_n`). A missing value (NULL or NaN) is ignored in its column's average, which is NULL if all
values of the window are missing. A session is a sequence of readings at most `timeout` apart; after a longer silence, the next
starts with an empty window. It ends when the watermark reaches its last reading plus `timeout`, and gives a row in
`station_sessions`; with `timeout_in=processing_time`, when a run finds that the last reading arrived longer than `timeout`
ago. A session that never had enough readings for a row of averages gives one row of those that it had (`TIMEOUT`).

A reading at or behind the watermark is late, whatever the state of its station. Everything else depends only on event time, so
any order of arrival within `watermark_delay` and any batch boundaries give the same rows, to the last bit. With
`timeout_in=processing_time`, it also depends on the times of the runs that brought the readings.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from keyfold import Append, Input, KeyedJob, Upsert, column, required, with_parameters
from keyfold.columns import unit_of
from keyfold.keyed.job import Delay, Duration, Names, TimeKind, Timeout
from keyfold.operators import count, first, last, last_n, mean
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.silence import SilentParameters, kind_of_timeout
from spark_jobs.streams import WEATHER

NUMERIC_COLUMNS = tuple(
    field.name for field in WEATHER.schema if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
)

STATION_SESSION = pa.schema(
    [
        required("station_id", pa.string(), "Station that took the readings"),
        required("start_time", TIMESTAMP, "Event time of the first reading (UTC)"),
        required("end_time", TIMESTAMP, "Event time of the last reading (UTC)"),
        required("n_readings", pa.int64(), "Readings in all"),
        required("reason", pa.string(), "TIMEOUT: the station fell silent"),
    ]
)


class MovingAverageParameters(SilentParameters):
    """Parameters of `moving_averages`."""

    # All need a refresh: state has only the last `n_readings - 1` readings; a shorter `timeout` would have cut the open session;
    # and with another `min_readings`, a session could give its row of `TIMEOUT` besides others, or no row at all.
    n_readings: int = Field(10, ge=1, description="Number of readings in a full window")
    columns: Names = Field(("pressure", "temp"), description="Numeric columns of the stream to average")
    min_readings: int | None = Field(
        None, ge=1, description="Number of readings from which rows are written, up to n_readings; None: n_readings"
    )
    timeout_in: TimeKind = kind_of_timeout("refresh")
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
    columns = parameters.columns
    rows = averages_schema(columns)
    return last_n(
        "moving_averages",
        Input(WEATHER, columns=("station_id", "time", *columns)),
        parameters.n_readings,
        {
            "start_time": first("time"),
            "end_time": last("time"),
            **{f"{name}_avg": mean(name) for name in columns},
            "n_readings": count(),
        },
        key="station_id",
        output=rows,
        silence=parameters.silence,
        from_n=parameters.first_row_at,
        latest=Upsert(rows, "station_id", name="latest_moving_averages", description="The latest row of each station."),
        sessions=Append(
            STATION_SESSION,
            name="station_sessions",
            events=pl.col("n_readings").sum(),
            description="One row per ended session: readings without a silence longer than `timeout`.",
        ),
    )


def averages_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of the table with averages of these columns."""
    return pa.schema(
        [
            STATION_SESSION.field("station_id"),
            required("start_time", TIMESTAMP, "Event time of the window's first reading (UTC)"),
            required("end_time", TIMESTAMP, "Event time of its last reading (UTC)"),
            *(_average_of(WEATHER.schema.field(name)) for name in columns),
            required("n_readings", pa.int64(), "Readings in the window"),
            required(
                "reason",
                pa.string(),
                "WINDOW_FULL with N readings; WINDOW_FILLING before; TIMEOUT if the station fell silent before its first row",
            ),
        ]
    )


def _average_of(value: pa.Field) -> pa.Field:
    meaning = f"Mean `{value.name}` of the window's readings that have one; NULL if none has"
    return column(f"{value.name}_avg", pa.float64(), meaning, unit=unit_of(value))


MOVING_AVERAGES = with_parameters(build)
