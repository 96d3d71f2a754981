"""Load weather stations, and find the nearest one to a place."""

import hashlib
from pathlib import Path

import polars as pl

from keyfold import KeyfoldError
from spark_jobs.jobs.motion import great_circle_metres

NO_STATION = ""
"""The station of a place that is unknown or far from all stations; it has no readings."""

AIRPORTS = pl.DataFrame(
    {
        "station_id": ["BOS", "DCA", "EWR", "JFK", "LGA", "PHL"],
        "latitude": [42.364347, 38.852083, 40.692500, 40.639751, 40.777245, 39.871944],
        "longitude": [-71.005181, -77.037722, -74.168667, -73.778925, -73.872608, -75.241139],
    }
)
"""The airports in the sample data; latitude and longitude in degrees, WGS 84."""


def load_stations(path: str) -> pl.DataFrame:
    """Read and check a CSV file with the columns `station_id`, `latitude` and `longitude`.

    Raises:
        KeyfoldError: the file does not exist, a column is missing, a position is invalid, or a station occurs twice.
    """
    file = Path(path).expanduser()
    where = f"stations: {file}"
    try:
        found = pl.read_csv(file, schema_overrides={"station_id": pl.String}).select(
            "station_id", pl.col("latitude", "longitude").cast(pl.Float64)
        )
    except FileNotFoundError:
        raise KeyfoldError(
            f"stations: {file.absolute()} does not exist; give the path of a CSV file with stations=PATH"
        ) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise KeyfoldError(
            f"{where} must be a CSV file with the columns station_id, latitude and longitude: {str(error).splitlines()[0]}"
        ) from None
    wrong = found.filter(
        ~(
            (pl.col("station_id").fill_null("") != NO_STATION)
            & pl.col("latitude").is_between(-90, 90).fill_null(value=False)
            & pl.col("longitude").is_between(-180, 180).fill_null(value=False)
        )
    )
    if wrong.height or not found.height:
        fault = f"has a row {wrong.row(0)}" if wrong.height else "has no rows"
        raise KeyfoldError(
            f"{where} {fault}; each row has a station_id, a latitude (-90 to 90) and a longitude (-180 to 180)"
        )
    if (twice := found.filter(pl.col("station_id").is_duplicated())).height:
        raise KeyfoldError(
            f"{where} has station {twice['station_id'][0]!r} more than once; remove all of its rows but one"
        )
    return found.sort("station_id")


def fingerprint(stations: pl.DataFrame) -> str:
    """Return a fingerprint of the stations and their places, which does not depend on the file's form."""
    return "sha256:" + hashlib.sha256(repr(stations.rows()).encode()).hexdigest()


def nearest_station(stations: pl.DataFrame, latitude: pl.Expr, longitude: pl.Expr, farthest: float) -> pl.Expr:
    """Return the station nearest to a place by great circle; of two equally near ones, the first by name.

    Args:
        stations: at least one, sorted by name; few, since each place is compared with all of them.
        latitude, longitude: the place in degrees; NULL if unknown.
        farthest: longest distance in metres; if no station is nearer, the result is `NO_STATION`.
    """
    metres = pl.concat_list(
        great_circle_metres(latitude, longitude, pl.lit(north), pl.lit(east))
        for north, east in zip(stations["latitude"].to_list(), stations["longitude"].to_list(), strict=True)
    )
    place = metres.list.arg_min().cast(pl.UInt32)
    station = place.replace_strict(
        list(range(stations.height)), stations["station_id"].to_list(), default=None, return_dtype=pl.String
    )
    return pl.when(metres.list.min() <= farthest).then(station).otherwise(pl.lit(NO_STATION))
