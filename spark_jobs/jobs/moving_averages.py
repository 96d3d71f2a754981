"""Write, with each reading of a station, the averages of its last N readings, once there are N.

The window is the last N readings of a station in event time, in any order of arrival: a reading waits in state until the
watermark has passed it (`last_n`). A missing value (NULL or NaN) is ignored in its column's average, which is NULL if all
values of the window are missing. A session is a sequence of readings at most `timeout` apart; after a longer silence, the next
starts with an empty window. It ends when the watermark reaches its last reading plus `timeout`, and gives a row in
`station_sessions`; with `timeout_in=processing_time`, when a run finds that the last reading arrived longer than `timeout`
ago. A session that never had enough readings for a row of averages gives one row of those that it had (`TIMEOUT`).

A reading at or behind the watermark is late, whatever the state of its station. Everything else depends only on event time, so
any order of arrival within `delay` and any batch boundaries give the same rows, to the last bit. With
`timeout_in=processing_time`, it also depends on the times of the runs that brought the readings.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import (
    TIMESTAMP,
    Append,
    Delay,
    Duration,
    Input,
    KeyedJob,
    Names,
    TimeKind,
    Timeout,
    Upsert,
    column,
    field_of,
    required,
    unit_of,
    with_parameters,
)
from keyfold.operators import count, first, last, last_n, mean
from spark_jobs.jobs.silence import SilentParameters, kind_of_timeout
from spark_jobs.streams import WEATHER

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
    delay: Delay = Field(
        timedelta(hours=1), description="How far out of order readings may come: one round of hourly readings"
    )


def build(parameters: MovingAverageParameters) -> KeyedJob:
    """With each reading of a station: the averages of its last N readings and the time they span."""
    columns = parameters.columns
    rows = averages_schema(columns)
    return last_n(
        "moving_averages",
        Input(WEATHER, columns=("station_id", "time", *columns)),
        {
            "start_time": first("time"),
            "end_time": last("time"),
            **{f"{name}_avg": mean(_known(name)) for name in columns},
            "n_readings": count(),
        },
        n=parameters.n_readings,
        key="station_id",
        output=rows,
        gap=Timeout(parameters.timeout, parameters.timeout_in),
        from_n=parameters.min_readings,
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
            *(_average_of(field_of("job moving_averages: columns", name, WEATHER.schema)) for name in columns),
            required("n_readings", pa.int64(), "Readings in the window"),
            required(
                "reason",
                pa.string(),
                "WINDOW_FULL with N readings; WINDOW_FILLING before; TIMEOUT if the station fell silent before its first row",
            ),
        ]
    )


def _known(name: str) -> pl.Expr:
    value = pl.col(name)
    return value.fill_nan(None) if pa.types.is_floating(WEATHER.schema.field(name).type) else value


def _average_of(value: pa.Field) -> pa.Field:
    meaning = f"Mean `{value.name}` of the window's readings that have one; NULL if none has"
    return column(f"{value.name}_avg", pa.float64(), meaning, unit=unit_of(value))


MOVING_AVERAGES = with_parameters(build)
