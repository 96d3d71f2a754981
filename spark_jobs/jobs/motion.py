"""Compute distances on the earth."""

import polars as pl

EARTH_RADIUS_IN_METRES = 6_371_008.8
"""Mean radius R1 of the WGS 84 ellipsoid (IUGG)."""


def great_circle_metres(latitude: pl.Expr, longitude: pl.Expr, to_latitude: pl.Expr, to_longitude: pl.Expr) -> pl.Expr:
    """Return the distance in metres between two places in degrees, by the haversine formula on a sphere of the mean radius."""
    north = ((to_latitude.radians() - latitude.radians()) / 2).sin() ** 2
    east = ((to_longitude.radians() - longitude.radians()) / 2).sin() ** 2
    chord = north + latitude.radians().cos() * to_latitude.radians().cos() * east
    # For antipodal places, rounding may give more than 1, which has no arcsine.
    return 2 * EARTH_RADIUS_IN_METRES * chord.sqrt().clip(upper_bound=1).arcsin()


def leg_in_micrometres(latitude: str, longitude: str) -> pl.Expr:
    """Return the whole micrometres from the row before, so that sums do not depend on their order; 0 if a place is missing."""
    north, east = pl.col(latitude), pl.col(longitude)
    metres = great_circle_metres(north.shift(), east.shift(), north, east)
    return (metres * 1e6).round().cast(pl.Int64, strict=False).fill_null(0)
