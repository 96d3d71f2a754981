"""Compute geohashes of positions."""

_DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"


def geohash(latitude: float, longitude: float, length: int = 7) -> str:
    """Compute the geohash of a position in degrees (Niemeyer 2008; 7 digits are about 150 m by 150 m).

    Raises:
        ValueError: the position is not on the earth.
    """
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ValueError("latitude must be -90 to 90 degrees and longitude -180 to 180")
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    number = 0
    for bit in range(5 * length):
        bounds, value = ranges[bit % 2], (longitude, latitude)[bit % 2]
        middle = (bounds[0] + bounds[1]) / 2
        is_above = value >= middle
        bounds[0 if is_above else 1] = middle
        number = 2 * number + is_above
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))
