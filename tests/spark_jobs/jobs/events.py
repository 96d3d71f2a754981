"""Events of the shipped streams, with the values that a test is about."""

from datetime import timedelta

import polars as pl

from keyfold.keyed.rows.codec import polars_schema
from spark_jobs.streams import TELEMETRY
from tests.shop import MINUTE, NOON

LONG_PAST_ALL = NOON + timedelta(days=30)


def telemetry_point(
    minutes,
    speed,
    fuel: float | None = None,
    latitude=0.0,
    longitude=10.0,
    acceleration: float | None = None,
    heat: float | None = None,
    vehicle="bus-7",
):
    return {
        "vehicle_id": vehicle,
        "time": NOON + minutes * MINUTE,
        "latitude": latitude,
        "longitude": longitude,
        "speed": float(speed),
        "fuel_level": fuel,
        "acceleration": acceleration,
        "bearing": None,
        "engine_temperature": heat,
    }


def telemetry_frame(points):
    return points if isinstance(points, pl.DataFrame) else pl.DataFrame(points, schema=polars_schema(TELEMETRY.schema))


def ride_point(ride, index, minutes, status="enroute", latitude=40.7, longitude=-74.0):
    return {
        "ride_id": ride,
        "point_idx": index,
        "latitude": latitude + index / 1000,
        "longitude": longitude,
        "timestamp": NOON + timedelta(minutes=minutes),
        "meter_reading": 2.5 + index,
        "ride_status": status,
    }


def weather_reading(hours, pressure: float | None = 1000.0, temp: float | None = 50.0, station="JFK"):
    return {
        "station_id": station,
        "time": NOON + timedelta(hours=hours),
        "pressure": pressure,
        "temp": temp,
    }


def payment(number, card, minutes, city):
    return {"card": card, "time": NOON + timedelta(minutes=minutes), "city": city, "amount": 1.0 + number,
            "merchant": None, "payment_id": f"p{number}"}  # fmt: skip
