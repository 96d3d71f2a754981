"""Geofences on a grid, files of them, and points of vehicles in its cells."""

import json

from tests.spark_jobs.jobs.events import telemetry_point

CELL = 0.001
"""Degrees; points lie on whole cells, and borders half way between, so that none lies on one."""


def at(x, y):
    return 13 + x * CELL, 52 + y * CELL


def ring(*corners):
    return [at(*corner) for corner in (*corners, corners[0])]


def square(west, south, east, north):
    return ring((west, south), (east, south), (east, north), (west, north))


FENCES = {
    "yard": [[square(0.5, 0.5, 6.5, 5.5), square(2.5, 2.5, 4.5, 4.5)]],
    "docks": [[square(5.5, 3.5, 8.5, 8.5)], [square(9.5, 0.5, 11.5, 1.5)]],
}
"""A square with a hole; and two, of which one overlaps it."""


def feature(name, polygons, **geometry):
    multi = {"type": "MultiPolygon", "coordinates": polygons}
    single = {"type": "Polygon", "coordinates": polygons[0]}
    shape = {**(multi if len(polygons) > 1 else single), **geometry}
    return {"type": "Feature", "properties": {"name": name}, "geometry": shape}


def write(path, features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return str(path)


def fenced_point(minutes, fuel: float | None = None, heat: float | None = None, place=(-5, -5), vehicle="bus-7"):
    longitude, latitude = at(*place)
    return telemetry_point(minutes, 50, fuel, latitude, longitude, heat=heat, vehicle=vehicle)
