"""Compare fleet warnings of a million points with plain DuckDB: `python -m benchmarks.jobs.fleet_warnings`.

The job gets the points of all vehicles in order of time, and the query gets the same frame. Both check two values and 40
rectangular geofences without a margin, since DuckDB has no polygons of its own and tests a rectangle with four comparisons.
Both return the same warnings.
"""

import argparse
import json
import tempfile
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.jobs.measure import compare
from benchmarks.jobs.vehicle_trips import START, simulate
from keyfold import KeyedJob, TestHarness, build_job
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNINGS

FENCES = 40

QUERY = """
    WITH said AS (
        SELECT vehicle_id, time, 'LOW_FUEL' AS warning, NULL AS geofence,
            CASE WHEN fuel_level < 10 THEN 1 WHEN fuel_level >= 12 THEN 0 END AS says FROM points
        UNION ALL
        SELECT vehicle_id, time, 'ENGINE_TOO_HOT', NULL,
            CASE WHEN engine_temperature > 110 THEN 1 WHEN engine_temperature <= 105 THEN 0 END FROM points
    ), is_on AS (
        SELECT *, lag(says, 1, 0) OVER (PARTITION BY vehicle_id, warning ORDER BY time) AS before
        FROM said WHERE says IS NOT NULL
    ), placed AS (
        SELECT p.vehicle_id, p.number, p.time, f.name AS geofence FROM numbered p JOIN fences f
        ON p.longitude BETWEEN f.west AND f.east AND p.latitude BETWEEN f.south AND f.north
    ), runs AS (
        SELECT vehicle_id, geofence, min(number) AS first, max(number) AS last FROM (
            SELECT *, number - row_number() OVER (PARTITION BY vehicle_id, geofence ORDER BY number) AS run FROM placed
        ) GROUP BY vehicle_id, geofence, run
    )
    SELECT vehicle_id, time, warning, geofence, CASE says WHEN 1 THEN 'BEGAN' ELSE 'ENDED' END AS change
        FROM is_on WHERE says <> before
    UNION ALL
    SELECT r.vehicle_id, n.time, 'IN_GEOFENCE', geofence, 'BEGAN' FROM runs r JOIN numbered n
        ON n.vehicle_id = r.vehicle_id AND n.number = r.first
    UNION ALL
    SELECT r.vehicle_id, n.time, 'IN_GEOFENCE', geofence, 'ENDED' FROM runs r JOIN numbered n
        ON n.vehicle_id = r.vehicle_id AND n.number = r.last + 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.fleet_warnings", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1000, help="of each vehicle")
    arguments = parser.parse_args()
    points = (
        simulate(arguments.vehicles, arguments.points)
        .sort("time")
        .with_columns(pl.col("engine_temperature") + 20 * (pl.col("time").dt.minute() < 3))
    )
    fences = rectangles(points)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fences.geojson"
        file.write_text(json.dumps(as_geojson(fences)))
        job = build_job(FLEET_WARNINGS, {"geofences": str(file), "geofence_margin": 0})
    points = points.select(job.events.names)
    order = ["vehicle_id", "time", "warning", "geofence", "change"]
    expected = query(points, fences).select(order).sort(order)
    for batches in (1, 10):
        parts = list(points.iter_slices(-(-points.height // batches)))
        assert_frame_equal(keyfold(job, parts).select(order).sort(order), expected)
        compare(
            f"fleet_warnings, {expected.height:,} warnings, {FENCES} geofences, {batches} micro-batch(es)",
            points.height,
            lambda parts=parts: keyfold(job, parts),
            lambda: query(points, fences),
        )


def rectangles(points: pl.DataFrame) -> pl.DataFrame:
    chance = np.random.default_rng(1)
    middle = points.select("longitude", "latitude").sample(FENCES, seed=1)
    size = chance.uniform(0.01, 0.05, FENCES)
    return middle.select(
        name=pl.Series([f"fence {number:02}" for number in range(FENCES)]),
        west=pl.col("longitude") - pl.Series(size),
        south=pl.col("latitude") - pl.Series(size),
        east=pl.col("longitude") + pl.Series(size),
        north=pl.col("latitude") + pl.Series(size),
    )


def as_geojson(fences: pl.DataFrame) -> dict[str, object]:
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "Polygon", "coordinates": [[(w, s), (e, s), (e, n), (w, n), (w, s)]]},
        }
        for name, w, s, e, n in fences.rows()
    ]
    return {"type": "FeatureCollection", "features": features}


def keyfold(job: KeyedJob, batches: list[pl.DataFrame]) -> pl.DataFrame:
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(batch)
    harness.batch(advance_to=START + timedelta(days=3650))
    return harness.written["fleet_warnings"]


def query(points: pl.DataFrame, fences: pl.DataFrame) -> pl.DataFrame:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("points", points.to_arrow())
        database.register("fences", fences.to_arrow())
        database.execute(
            "CREATE TABLE numbered AS SELECT vehicle_id, time, longitude, latitude, "
            "row_number() OVER (PARTITION BY vehicle_id ORDER BY time) AS number FROM points"
        )
        found = database.sql(QUERY).pl()
    return found.with_columns(pl.col("time").cast(points.schema["time"]))


if __name__ == "__main__":
    main()
