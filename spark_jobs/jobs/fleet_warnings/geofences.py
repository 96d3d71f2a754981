"""Load geofences, named areas of a GeoJSON file, and find the points in or near them."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from keyfold import KeyfoldError
from spark_jobs.jobs.motion import EARTH_RADIUS_IN_METRES

if TYPE_CHECKING:
    from shapely import Geometry

_METRES_A_DEGREE = math.radians(EARTH_RADIUS_IN_METRES)
_ARC = 16
"""Line segments per quarter circle of a margin around a corner; at most half a percent of the margin is lost."""


class Geofences:
    """Named areas with a margin around them.

    Args:
        areas: by name, each one or more polygons, which may have holes.
        margin: margin around each area, in metres.

    Example:
        >>> from shapely import box
        >>> yards = Geofences({"yard": box(13.40, 52.50, 13.41, 52.51)}, margin=100)
        >>> yards.near(pl.DataFrame({"longitude": [13.405, 13.4101, 13.5], "latitude": [52.505] * 3})).rows()
        [(0, 'yard', True), (1, 'yard', False)]
    """

    def __init__(self, areas: "dict[str, Geometry]", margin: float) -> None:
        self.names: Sequence[str] = sorted(areas)
        self._areas = np.array([areas[name] for name in self.names], dtype=object)
        self._margin = margin
        self._index: Any = None

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of names and areas, which does not depend on the file's form."""
        areas = [[name, area.normalize().wkt] for name, area in zip(self.names, self._areas, strict=True)]
        return "sha256:" + hashlib.sha256(json.dumps(areas).encode()).hexdigest()

    def near(self, points: pl.DataFrame) -> pl.DataFrame:
        """Find the points in a geofence (`begins`; border included) or within its margin, sorted by geofence and point."""
        shapely, longitude, latitude = _shapely(), points["longitude"].to_numpy(), points["latitude"].to_numpy()
        if self._index is None:
            outer = np.array([_with_margin(area, self._margin) for area in self._areas], dtype=object)
            shapely.prepare(self._areas)
            shapely.prepare(outer)
            self._index = outer, shapely.STRtree(outer), shapely.total_bounds(outer)
        outer, tree, (west, south, east, north) = self._index
        there = np.flatnonzero((longitude >= west) & (longitude <= east) & (latitude >= south) & (latitude <= north))
        # First by bounding boxes, then each point against prepared areas.
        of, fence = tree.query(shapely.points(longitude[there], latitude[there]))
        point = there[of]
        is_near = shapely.intersects_xy(outer[fence], longitude[point], latitude[point])
        point, fence = point[is_near], fence[is_near]
        order = np.lexsort((point, fence))
        point, fence = point[order], fence[order]
        names = pl.Series(self.names, dtype=pl.String).gather(fence)
        is_inside = shapely.intersects_xy(self._areas[fence], longitude[point], latitude[point])
        return pl.DataFrame({"row": point, "subject": names, "begins": is_inside})

    def __getstate__(self) -> dict[str, Any]:
        # The index cannot be pickled: workers rebuild it.
        return {**self.__dict__, "_index": None}


def load_geofences(path: str, margin: float) -> Geofences:
    """Read and check a GeoJSON file (RFC 7946) whose features are named polygons in WGS 84.

    Raises:
        KeyfoldError: the file does not exist, is not GeoJSON, or a feature is not a valid geofence.
    """
    file = Path(path).expanduser()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KeyfoldError(
            f"geofences: {file.absolute()} does not exist; give the path of a GeoJSON file with geofences=PATH"
        ) from None
    except (OSError, ValueError) as error:
        raise KeyfoldError(f"geofences: {file} cannot be read as JSON: {error}") from None
    is_collection = isinstance(content, dict) and content.get("type") == "FeatureCollection"
    features = content.get("features") if is_collection else None
    if not isinstance(features, list) or not features:
        raise KeyfoldError(f"geofences: {file} must be a GeoJSON FeatureCollection with at least one feature")
    areas: dict[str, Geometry] = {}
    for number, feature in enumerate(features, 1):
        name, area = _area(feature, f"geofences: {file}, feature {number}")
        if name in areas:
            raise KeyfoldError(f"geofences: {file}, feature {number}: there is another feature with the name {name!r}")
        areas[name] = area
    return Geofences(areas, margin)


def _area(feature: Any, where: str) -> "tuple[str, Geometry]":
    """Return a feature's name and area."""
    shapely = _shapely()
    properties, geometry = (
        feature.get(part) if isinstance(feature, dict) else None for part in ("properties", "geometry")
    )
    name = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise KeyfoldError(f"{where} has no name: give it properties such as {{'name': 'Depot'}}")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in ("Polygon", "MultiPolygon"):
        raise KeyfoldError(
            f"{where} ({name}) is a {kind or 'feature without geometry'}; it must be a Polygon or MultiPolygon"
        )
    try:
        area = shapely.force_2d(shapely.from_geojson(json.dumps(geometry)))
    except (shapely.errors.GEOSException, ValueError) as error:
        raise KeyfoldError(f"{where} ({name}) has coordinates that are not a {kind}: {error}") from None
    if area.is_empty:
        raise KeyfoldError(f"{where} ({name}) has no coordinates")
    west, south, east, north = area.bounds
    if not (west >= -180 and south >= -90 and east <= 180 and north <= 90):
        raise KeyfoldError(
            f"{where} ({name}) goes beyond longitude -180 to 180 or latitude -90 to 90; positions are [longitude, latitude]"
        )
    if not area.is_valid:
        raise KeyfoldError(
            f"{where} ({name}) is not a valid area: {shapely.is_valid_reason(area)}; correct its coordinates"
        )
    return name, area


def _with_margin(area: "Geometry", margin: float) -> "Geometry":
    """Extend an area by a margin in metres, on a map projection that is true to scale at the area."""
    if not margin:
        return area
    shapely = _shapely()
    scale = np.array([max(math.cos(math.radians(shapely.get_y(shapely.centroid(area)))), 0.01), 1.0]) * _METRES_A_DEGREE
    on_map = shapely.transform(area, lambda degrees: degrees * scale)
    return shapely.transform(shapely.buffer(on_map, margin, quad_segs=_ARC), lambda metres: metres / scale)


def _shapely() -> Any:
    # Imported late: it takes half a second, and only jobs with geofences need it.
    import shapely  # noqa: PLC0415

    return shapely
