"""Declare the columns that trips and days of vehicles share."""

import pyarrow as pa

from keyfold import column, required

PLACE = ("latitude", "longitude", "time")
MOTION = ("speed", "time")
"""Columns of telemetry that a place, or a movement, depends on."""

MOVING_SECONDS = required("moving_seconds", pa.float64(), "Time after points that move", unit="seconds", made_of=MOTION)

IDLE_SECONDS = required(
    "idle_seconds", pa.float64(), "Time in pauses of trips, shorter than `stop_after`", unit="seconds", made_of=MOTION
)

FUEL_USED = column(
    "fuel_used",
    pa.float64(),
    "Sum of falls between consecutive fuel readings; NULL without a reading",
    unit="litres",
    made_of="fuel_level time",
)
