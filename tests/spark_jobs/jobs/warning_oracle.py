"""Fleet warnings in plain Python, one point at a time, with geometry by hand: what the job must agree with."""

import math
from itertools import pairwise

METRES_A_DEGREE = 6_371_008.8 * math.pi / 180


def watch(points, watermark, fences, margin, low_fuel=10, low_until=12, hot=110, hot_until=105):
    """The warnings of points none of which is late, once the watermark has come to a moment.

    `fences`: by name, a list of polygons, each a list of rings of (longitude, latitude), the first the outer one.
    """
    warnings, open_since = [], {}
    for point in sorted(points, key=_order):
        if point["time"] > watermark:
            continue
        fuel, heat = point["fuel_level"], point["engine_temperature"]
        here = point["longitude"], point["latitude"]
        says = {
            ("LOW_FUEL", None): fuel and ((fuel < low_fuel) - (fuel >= low_until)),
            ("ENGINE_TOO_HOT", None): heat and ((heat > hot) - (heat <= hot_until)),
        }
        for name, polygons in fences.items():
            inside = any(_in_polygon(here, rings) for rings in polygons)
            far = all(_metres_to(here, rings) > margin for rings in polygons)
            says["IN_GEOFENCE", name] = 1 if inside else -1 if far else 0
        for (warning, fence), said in says.items():
            key = point["vehicle_id"], warning, fence
            if (said or 0) > 0 and key not in open_since:
                open_since[key] = point["time"]
                warnings.append(_row(point, warning, fence, "BEGAN", point["time"]))
            if (said or 0) < 0 and key in open_since:
                warnings.append(_row(point, warning, fence, "ENDED", open_since.pop(key)))
    return warnings


def _row(point, warning, fence, change, began_at):
    told = {
        name: point[name]
        for name in ("vehicle_id", "time", "latitude", "longitude", "fuel_level", "engine_temperature")
    }
    return {**told, "warning": warning, "geofence": fence, "change": change, "began_at": began_at}


def _in_polygon(here, rings):
    return _in_ring(here, rings[0]) and not any(_in_ring(here, hole) for hole in rings[1:])


def _in_ring(here, ring):
    """By how many sides a ray to the east crosses."""
    x, y = here
    crossings = 0
    for (ax, ay), (bx, by) in pairwise(ring):
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            crossings += 1
    return crossings % 2 == 1


def _metres_to(here, rings):
    """To the border of a polygon, on a map that is true to scale there; 0 inside."""
    if _in_polygon(here, rings):
        return 0.0
    narrow = math.cos(math.radians(here[1]))
    return min(
        _to_side((here[0] * narrow, here[1]), (a[0] * narrow, a[1]), (b[0] * narrow, b[1]))
        for ring in rings
        for a, b in pairwise(ring)
    ) * METRES_A_DEGREE  # fmt: skip


def _to_side(p, a, b):
    length = math.dist(a, b) ** 2
    along = max(0.0, min(1.0, ((p[0] - a[0]) * (b[0] - a[0]) + (p[1] - a[1]) * (b[1] - a[1])) / length))
    return math.dist(p, (a[0] + along * (b[0] - a[0]), a[1] + along * (b[1] - a[1])))


def _order(point):
    rest = [(one is not None, one or 0) for one in (point["fuel_level"], point["engine_temperature"])]
    return point["vehicle_id"], point["time"], point["latitude"], point["longitude"], *rest
