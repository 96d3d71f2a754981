"""Compute distances on the earth, and declare the columns that trips and days of vehicles share."""

import polars as pl
import pyarrow as pa

from keyfold import column, required

EARTH_RADIUS_IN_METRES = 6_371_008.8
"""Mean radius R1 of the WGS 84 ellipsoid (IUGG)."""


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


def great_circle_metres(latitude: pl.Expr, longitude: pl.Expr, to_latitude: pl.Expr, to_longitude: pl.Expr) -> pl.Expr:
    """Return the distance in metres between two places in degrees, by the haversine formula on a sphere of the mean radius."""
    north = ((to_latitude.radians() - latitude.radians()) / 2).sin() ** 2
    east = ((to_longitude.radians() - longitude.radians()) / 2).sin() ** 2
    chord = north + latitude.radians().cos() * to_latitude.radians().cos() * east
    # For antipodal places, rounding may give more than 1, which has no arcsine.
    return 2 * EARTH_RADIUS_IN_METRES * chord.sqrt().clip(upper_bound=1).arcsin()


def leg_in_micrometres(latitude: pl.Expr, longitude: pl.Expr, to_latitude: pl.Expr, to_longitude: pl.Expr) -> pl.Expr:
    """Return the distance in whole micrometres, so that sums do not depend on their order; 0 if a place is missing."""
    metres = great_circle_metres(latitude, longitude, to_latitude, to_longitude)
    return (metres * 1e6).round().cast(pl.Int64, strict=False).fill_null(0)
