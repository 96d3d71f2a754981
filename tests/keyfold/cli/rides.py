"""Two rides, as they land."""

RIDE = [
    {"ride_id": "r1", "point_idx": 0, "timestamp": "2026-01-01T12:00:00Z", "ride_status": "pickup"},
    {"ride_id": "r1", "point_idx": 1, "timestamp": "2026-01-01T12:04:10Z", "ride_status": "dropoff"},
    {"ride_id": "r2", "point_idx": 0, "timestamp": "2026-01-01T12:05:00Z", "ride_status": "pickup"},
]
POINT = {"latitude": 40.7, "longitude": -74.0, "meter_reading": 1.5, "meter_increment": 0.1, "passenger_count": 1}
