"""Declare the tables and the state of moving averages."""

import pyarrow as pa

from keyfold import column, required
from keyfold.columns import unit_of
from keyfold.stream import TIMESTAMP
from spark_jobs.streams import WEATHER

KEY = ("station_id",)

STATION_SESSION = pa.schema(
    [
        required("station_id", pa.string(), "Station that took the readings", made_of="station_id"),
        required("start_time", TIMESTAMP, "Event time of the first reading (UTC)", made_of="time"),
        required("end_time", TIMESTAMP, "Event time of the last reading (UTC)", made_of="time"),
        required("n_readings", pa.int64(), "Readings in all", made_of="time"),
        required("reason", pa.string(), "TIMEOUT: the station fell silent", made_of="time"),
    ]
)


def averages_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of the table with averages of these columns."""
    return pa.schema(
        [
            STATION_SESSION.field("station_id"),
            required("start_time", TIMESTAMP, "Event time of the window's first reading (UTC)", made_of="time"),
            required("end_time", TIMESTAMP, "Event time of its last reading (UTC)", made_of="time"),
            *(_average_of(WEATHER.schema.field(name)) for name in columns),
            required("n_readings", pa.int64(), "Readings in the window", made_of="time"),
            required(
                "reason",
                pa.string(),
                "WINDOW_FULL with N readings; WINDOW_FILLING before; TIMEOUT if the station fell silent before its first row",
                made_of="time",
            ),
        ]
    )


def _average_of(value: pa.Field) -> pa.Field:
    meaning = f"Mean `{value.name}` of the window's readings that have one; NULL if none has"
    return column(f"{value.name}_avg", pa.float64(), meaning, unit=unit_of(value), made_of=(value.name, "time"))


def state_schema(reading: pa.Schema) -> pa.Schema:
    """Return the schema of the state: readings of open sessions, and readings that the watermark has not passed.

    `session_start` is NULL while a reading waits for the watermark. `n_events` is the number of readings that a row stands for:
    1 if it waits; in a session, the last reading has the count of the whole session, and the others 0.
    """
    return pa.schema(
        [
            *reading,
            pa.field("session_start", TIMESTAMP),
            pa.field("n_events", pa.int64(), nullable=False),
            pa.field("deadline", TIMESTAMP),
        ]
    )
