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
since the warnings that it could change are written. Any order of arrival within `watermark_delay` and any batch boundaries give
the same warnings. A shorter delay gives earlier warnings and more late points.

The geofences are read when the job is configured, and their content belongs to the generation: another file with the same areas
is accepted, changed areas require a refresh.
"""

import os
from functools import partial
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from keyfold import Clock, JobTemplate, KeyedJob, Step, column, required
from keyfold.columns import passed_on, plain_columns
from keyfold.keyed.job import EventTimeParameters, FilePath
from keyfold.keyed.rows.codec import empty
from keyfold.operators.ordering import in_order
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.fleet_warnings.geofences import Geofences, load_geofences
from spark_jobs.jobs.fleet_warnings.judging import judge_places, judge_value
from spark_jobs.streams import TELEMETRY

_READINGS = ("latitude", "longitude", "fuel_level", "engine_temperature")

POINT = pa.schema([TELEMETRY.schema.field(name) for name in ("vehicle_id", "time", *_READINGS)])

WARNING_STATE = pa.schema(
    [
        *plain_columns(pa.string(), "vehicle_id", "role", nullable=False),
        pa.field("time", TIMESTAMP),
        *plain_columns(pa.float64(), *_READINGS),
        *plain_columns(pa.string(), "warning", "geofence"),
        pa.field("began_at", TIMESTAMP),
        pa.field("n_points", pa.int64()),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""State rows of three roles: `waiting`, a point that the watermark has not passed; `holds`, an open warning; `judged`, the
number of evaluated points of a vehicle.
"""

FLEET_WARNING = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("time", TIMESTAMP, "Event time of the point at which it began, or ended (UTC)", made_of="time"),
        required("warning", pa.string(), "LOW_FUEL, ENGINE_TOO_HOT or IN_GEOFENCE", made_of=_READINGS),
        required("change", pa.string(), "BEGAN, or ENDED", made_of=(*_READINGS, "time")),
        column("geofence", pa.string(), "Name of the geofence; NULL of other warnings", made_of="latitude longitude"),
        required("began_at", TIMESTAMP, "When it began (UTC)", made_of=(*_READINGS, "time")),
        *passed_on(pa.schema([TELEMETRY.schema.field(name) for name in _READINGS])),
    ]
)


class FleetWarningsParameters(EventTimeParameters):
    """Parameters of `fleet_warnings`."""

    low_fuel: float = Field(10.0, gt=0, description="Litres below which LOW_FUEL begins")
    low_fuel_until: float = Field(12.0, gt=0, description="Litres from which LOW_FUEL ends")
    hot_engine: float = Field(110.0, description="°C above which ENGINE_TOO_HOT begins")
    hot_engine_until: float = Field(105.0, description="°C at or below which ENGINE_TOO_HOT ends")
    geofences: FilePath = Field(
        default_factory=lambda: os.environ.get("KEYFOLD_GEOFENCES", ""),
        description="Path of a GeoJSON file of named polygons [default: KEYFOLD_GEOFENCES]; without one there are no "
        "geofences",
    )
    geofence_margin: float = Field(25.0, ge=0, description="Metres from a geofence within which it is not left yet")

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


_MOVABLE_PARAMETERS = frozenset({"low_fuel", "low_fuel_until", "hot_engine", "hot_engine_until", "geofence_margin"})
"""Parameters that a move can change: an open warning continues until a point ends it by the new values."""


def build(parameters: FleetWarningsParameters) -> KeyedJob:
    """One row when a vehicle's fuel is low, its engine too hot, or it enters a geofence; and one when that is over.

    Raises:
        KeyfoldError: the file of geofences cannot be read or is invalid.
    """
    given = parameters.geofences
    geofences = load_geofences(given, parameters.geofence_margin) if given else None

    return KeyedJob(
        name="fleet_warnings",
        stream=TELEMETRY,
        key=("vehicle_id",),
        event_time="time",
        events=POINT,
        state=WARNING_STATE,
        output=FLEET_WARNING,
        step=partial(warn, parameters=parameters, geofences=geofences),
        step_decides_late=True,
        # Most points give no row, so state counts the evaluated points.
        output_events=pl.lit(0),
        state_events=pl.col("n_points").sum(),
        one_per_key=pl.col("role") == "judged",
        **parameters.settings(),
        movable_parameters=_MOVABLE_PARAMETERS,
        # The file's content belongs to the generation, not its path.
        free_parameters=frozenset({"geofences"}),
        contents={"geofences": geofences.fingerprint} if geofences else {},
    )


FLEET_WARNINGS = JobTemplate("fleet_warnings", FleetWarningsParameters, build)


def warn(
    state: pl.DataFrame,
    events: pl.DataFrame,
    clock: Clock,
    parameters: FleetWarningsParameters,
    geofences: Geofences | None,
) -> Step:
    """Run the step: every point waits, is evaluated and counted, or is late."""
    is_late = events["time"] <= clock.late_watermark
    late = events.filter(is_late)
    state = pl.concat([state, _waiting(events.filter(~is_late))])
    is_due = (state["deadline"] <= clock.watermark).fill_null(value=False)
    if not is_due.any():
        return Step(state, empty(FLEET_WARNING), late)
    ordered = in_order(state.filter(is_due), ("vehicle_id",), "time", _READINGS)
    vehicles = (
        ordered.events[ordered.starts].select("vehicle_id").with_columns(vehicle=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    others = state.filter(~is_due).join(vehicles, on="vehicle_id", how="left", maintain_order="left")
    # Rows of vehicles without a point to evaluate now do not change.
    concerned = others["vehicle"].is_not_null() & (others["role"] != "waiting")
    known, unchanged = others.filter(concerned), others.filter(~concerned).drop("vehicle")
    held = known.filter(pl.col("role") == "holds").select(
        "vehicle", "warning", "geofence", pl.col("began_at").to_physical()
    )
    judged = [
        judge_value(
            ordered,
            held,
            "LOW_FUEL",
            pl.col("fuel_level") < parameters.low_fuel,
            pl.col("fuel_level") >= parameters.low_fuel_until,
        ),
        judge_value(
            ordered,
            held,
            "ENGINE_TOO_HOT",
            pl.col("engine_temperature") > parameters.hot_engine,
            pl.col("engine_temperature") <= parameters.hot_engine_until,
        ),
        *([judge_places(ordered, held, geofences)] if geofences else []),
    ]
    changes = pl.concat([one.changes for one in judged])
    rows = ordered.events[changes["row"].to_numpy()].select("vehicle_id", "time", *_READINGS)
    columns = changes.drop("row").with_columns(pl.col("began_at").cast(pl.Datetime("us", "UTC")))
    counted = np.append(ordered.starts[1:], ordered.events.height) - ordered.starts
    before = vehicles.join(known.filter(pl.col("role") == "judged"), on="vehicle", how="left", maintain_order="left")
    kept = [
        vehicles.select(
            "vehicle_id",
            role=pl.lit("judged"),
            n_points=before["n_points"].fill_null(0) + pl.Series(counted, dtype=pl.Int64),
        ),
        pl.concat([one.held for one in judged])
        .join(vehicles, on="vehicle", maintain_order="left")
        .select(
            "vehicle_id",
            "warning",
            "geofence",
            pl.col("began_at").cast(pl.Datetime("us", "UTC")),
            role=pl.lit("holds"),
        ),
    ]
    return Step(
        state=pl.concat([empty(WARNING_STATE), unchanged, *kept], how="diagonal"),
        output=pl.concat([rows, columns], how="horizontal").select(FLEET_WARNING.names),
        late=late,
    )


def _waiting(points: pl.DataFrame) -> pl.DataFrame:
    """Convert points to rows of state that wait for the watermark; NaN counts as missing."""
    known = points.with_columns(
        pl.col("fuel_level", "engine_temperature").fill_nan(None),
        role=pl.lit("waiting"),
        n_points=pl.lit(1, pl.Int64),
        deadline="time",
    )
    return pl.concat([empty(WARNING_STATE), known], how="diagonal")
