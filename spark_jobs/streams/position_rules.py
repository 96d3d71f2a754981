"""Rules of events with a position."""

from keyfold import Rule, outside

POSITION = (
    Rule("latitude is outside -90 to 90", outside("latitude", -90, 90)),
    Rule("longitude is outside -180 to 180", outside("longitude", -180, 180)),
)
"""Rules for the columns `latitude` and `longitude`, in degrees."""
