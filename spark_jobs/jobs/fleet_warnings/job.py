"""Write one row when a warning of a vehicle begins, and one when it ends.

- `LOW_FUEL` begins at a point with less than `low_fuel` litres and ends at one with `low_fuel_until` or more.
- `ENGINE_TOO_HOT` begins at a point above `hot_engine` °C and ends at one of `hot_engine_until` or less.
- `IN_GEOFENCE` begins at a point inside a geofence (border included, holes excluded), and ends at the first point that is
  farther than `geofence_margin` metres from it. A vehicle may be in several geofences at once.

Each warning has two thresholds (hysteresis), so that a value or position that fluctuates around one of them gives one warning,
not twenty. Between the thresholds, at points without the value, and during silences of any length, the warning stays as it
was. Before a vehicle's first point, no warning holds: a vehicle that is first seen in a geofence enters it then.

Points wait in state until the watermark has passed them; then they are evaluated in order of event time. For evaluated points,
state has one row for each open warning, and the number of points of each vehicle. A point at or behind the watermark is late,
since the warnings that it could change are written. Any order of arrival within `delay` and any batch boundaries give
the same warnings. A shorter delay gives earlier warnings and more late points.

The geofences are read when the job is configured, and their content belongs to the generation: another file with the same areas
is accepted, changed areas require a refresh.
"""

import os
from typing import Self

import polars as pl
import pyarrow as pa
from pydantic import model_validator

from keyfold import (
    TIMESTAMP,
    EventTimeParameters,
    FilePath,
    Input,
    KeyedJob,
    column,
    parameter,
    required,
    with_parameters,
)
from keyfold.operators import Held, Listed, alert
from spark_jobs.jobs.fleet_warnings.geofences import load_geofences
from spark_jobs.streams import TELEMETRY

_READINGS = ("latitude", "longitude", "fuel_level", "engine_temperature")

FLEET_WARNING = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle"),
        required("time", TIMESTAMP, "Event time of the point at which it began, or ended (UTC)"),
        required("warning", pa.string(), "LOW_FUEL, ENGINE_TOO_HOT or IN_GEOFENCE"),
        required("change", pa.string(), "BEGAN, or ENDED"),
        column("geofence", pa.string(), "Name of the geofence; NULL of other warnings"),
        required("began_at", TIMESTAMP, "When it began (UTC)"),
        *map(TELEMETRY.schema.field, _READINGS),
    ]
)


class FleetWarningsParameters(EventTimeParameters):
    """Parameters of `fleet_warnings`."""

    # An open warning continues until a point ends it by the new values.
    low_fuel: float = parameter(10.0, gt=0, description="Litres below which LOW_FUEL begins", change="migrate")
    low_fuel_until: float = parameter(12.0, gt=0, description="Litres from which LOW_FUEL ends", change="migrate")
    hot_engine: float = parameter(110.0, description="°C above which ENGINE_TOO_HOT begins", change="migrate")
    hot_engine_until: float = parameter(105.0, description="°C at or below which ENGINE_TOO_HOT ends", change="migrate")
    # The content of the file belongs to the generation, not its path.
    geofences: FilePath = parameter(
        default_factory=lambda: os.environ.get("KEYFOLD_GEOFENCES", ""),
        description="Path of a GeoJSON file of named polygons [default: KEYFOLD_GEOFENCES]; without one there are no "
        "geofences",
        change="free",
    )
    geofence_margin: float = parameter(
        25.0, ge=0, description="Metres from a geofence within which it is not left yet", change="migrate"
    )

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.low_fuel_until < self.low_fuel:
            raise ValueError(
                f"low_fuel_until is {self.low_fuel_until} litres; it must be at least low_fuel, {self.low_fuel}, or a warning "
                "would end where it begins"
            )
        if self.hot_engine_until > self.hot_engine:
            raise ValueError(
                f"hot_engine_until is {self.hot_engine_until} °C; it must be at most hot_engine, {self.hot_engine}, or a "
                "warning would end where it begins"
            )
        return self


def build(parameters: FleetWarningsParameters) -> KeyedJob:
    """One row when a vehicle's fuel is low, its engine too hot, or it enters a geofence; and one when that is over.

    Raises:
        KeyfoldError: the file of geofences cannot be read or is invalid.
    """
    given = parameters.geofences
    geofences = load_geofences(given, parameters.geofence_margin) if given else None

    fuel, heat = pl.col("fuel_level"), pl.col("engine_temperature")
    conditions: dict[str, Held | Listed] = {
        "LOW_FUEL": Held(fuel < parameters.low_fuel, fuel >= parameters.low_fuel_until),
        "ENGINE_TOO_HOT": Held(heat > parameters.hot_engine, heat <= parameters.hot_engine_until),
    }
    if geofences:
        conditions["IN_GEOFENCE"] = Listed(geofences.near)
    return alert(
        "fleet_warnings",
        Input(TELEMETRY, columns=("vehicle_id", "time", *_READINGS)),
        conditions,
        key="vehicle_id",
        output=FLEET_WARNING,
        named="warning",
        subject="geofence",
        contents={"geofences": geofences.fingerprint} if geofences else {},
    )


FLEET_WARNINGS = with_parameters(build)
