"""The suites of time series and of the fleet: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, date, datetime, timedelta

from expectations import (
    anomaly_predictions,
    fleet_days,
    fleet_warnings,
    latest_moving_averages,
    latest_predictions,
    moving_averages,
    retired_models,
    station_sessions,
    vehicle_stops,
    vehicle_trips,
)
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.anomaly_predictions.tables import ANOMALY_PREDICTION, LABELS, LATEST_PREDICTION, RETIRED_MODEL
from spark_jobs.jobs.fleet_days import FLEET_DAY
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNING
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES, STATION_SESSION
from spark_jobs.jobs.vehicle_trips import VEHICLE_STOP, VEHICLE_TRIP
from tests.expectations.faults import Row, case, check_case, each, told
from tests.shop import NOON

HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)

LEARNED: Row = {"value": 11.0, "expected": 10.0, "score": 0.01, "label": "normal"}
ALARM = {"value": 90.0, "score": 0.99, "label": "anomalous", "previous_label": "normal"}


def prediction(number, **changes):
    learned = {"key": "cpu", "event_time": NOON + 5 * number * MINUTE, "events_learned": 100 + number}
    return {**LEARNED, "previous_label": "anomalous", **learned, **changes}


def last_of(key, **changes):
    return {"key": key, "event_time": NOON, **LEARNED, "low": 7.0, "high": 13.0, "events_learned": 100, **changes}


def retired(key, **changes):
    return {"key": key, "events_learned": 50, "last_event_time": NOON, "retired_at": NOON + 30 * DAY, **changes}


PREDICTED = [
    prediction(0, expected=None, score=0.0, previous_label=None, events_learned=0),
    *(prediction(number, **(ALARM if number % 2 else {})) for number in range(1, 20)),
]
LAST = [
    last_of("new", expected=None, low=None, high=None, score=0.0, events_learned=1),
    *(last_of(f"key-{number}") for number in range(20)),
]
RETIRED = [retired(f"key-{number}") for number in range(20)]

AVERAGES = build_job(MOVING_AVERAGES).main.schema


def average(number, station: str | None = "JFK", **changes):
    averages = {"pressure_avg": 1013.2, "temp_avg": 51.0, "n_readings": 10, "reason": "WINDOW_FULL"}
    times = {"start_time": NOON + number * HOUR, "end_time": NOON + (number + 9) * HOUR}
    return {"station_id": station, **times, **averages, **changes}


def session(number, **changes):
    times = {"start_time": NOON + 100 * number * HOUR, "end_time": NOON + (100 * number + 20) * HOUR}
    return {"station_id": "JFK", **times, "n_readings": 21, "reason": "TIMEOUT", **changes}


AVERAGED = [
    *(average(number) for number in (*range(20), *range(100, 120))),
    average(40, station="EWR", n_readings=3, reason="TIMEOUT", pressure_avg=None),
]
LATEST = [average(number % 3, station=f"station-{number}") for number in range(20)]
SESSIONS = [
    *(session(number) for number in range(10)),
    session(20, end_time=NOON + 2000 * HOUR, n_readings=1),
]


def day(number, **changes):
    begins = datetime(2026, 1, 1, tzinfo=UTC) + number * DAY
    figures = {"kilometres": 80.0, "trips": 9, "moving_seconds": 7_200.0, "idle_seconds": 600.0, "fuel_used": 7.5}
    of_day = {"vehicle_id": "bus-7", "day": begins.date(), "window_start": begins, "is_open": number > 18}
    return {**of_day, **figures, **changes}


DAYS = [*map(day, range(20)), day(20, kilometres=0.0, moving_seconds=0.0, fuel_used=None)]


def warning(minute, **changes):
    time, place = NOON + minute * MINUTE, {"latitude": 52.5, "longitude": 13.4}
    good = {"vehicle_id": "bus-7", "time": time, "warning": "LOW_FUEL", "change": "BEGAN", "geofence": None}
    return {**good, "began_at": time, **place, "fuel_level": 9.5, "engine_temperature": None, **changes}


def ended(minute, began, **changes):
    return warning(minute, change="ENDED", began_at=NOON + began * MINUTE, **changes)


HOT = {"warning": "ENGINE_TOO_HOT", "engine_temperature": 112.0, "fuel_level": None}
YARD = {"warning": "IN_GEOFENCE", "geofence": "yard", "fuel_level": None}
WARNINGS = [
    *(one for start in range(0, 100, 10) for one in (warning(start), ended(start + 5, start))),
    *(warning(1, **HOT), ended(9, 1, **HOT), warning(2, **YARD), ended(20_000, 2, **YARD)),
    warning(3, **{**YARD, "geofence": "docks"}),
]


def trip(number, **changes):
    times = {"start_time": NOON + number * HOUR, "end_time": NOON + (60 * number + 10) * MINUTE}
    ways = {"start_latitude": 48.1, "start_longitude": 11.6, "end_latitude": 48.2, "end_longitude": 11.5}
    figures = {"distance_in_metres": 8_000.0, "moving_seconds": 540.0, "idle_seconds": 60.0, "average_speed": 48.0}
    fuel = {"top_speed": 70.0, "fuel_used": 0.6, "litres_per_100_km": 7.5, "harsh_braking": 1, "harsh_acceleration": 0}
    ends = {"highest_engine_temperature": 92.5, "n_points": 60, "reason": "STOPPED"}
    return {"trip_id": f"bus-7@{number}", "vehicle_id": "bus-7", **times, **ways, **figures, **fuel, **ends, **changes}


def stop(number, **changes):
    times = {"start_time": NOON + (60 * number + 10) * MINUTE, "end_time": NOON + (number + 1) * HOUR}
    good = {"vehicle_id": "bus-7", **times, "latitude": 48.2, "longitude": 11.5, "n_points": 5, "reason": "MOVED_ON"}
    return {**good, **changes}


LONE = {"end_time": NOON + 100 * HOUR, "moving_seconds": 0.0, "idle_seconds": 0.0, "average_speed": None}
MEASURED = ("fuel_used", "litres_per_100_km", "harsh_braking", "harsh_acceleration", "highest_engine_temperature")
TRIPS = [*map(trip, range(20)), trip(100, **LONE, **dict.fromkeys(MEASURED), reason="FELL_SILENT")]
STOPS = [*map(stop, range(20)), stop(100, reason="FELL_SILENT")]


@each({
    "anomaly_predictions": case(anomaly_predictions, ANOMALY_PREDICTION, PREDICTED, {
        "key_is_there": prediction(50, key=None),
        "score_is_from_0_to_1": prediction(51, score=1.5),
        "label_is_known": prediction(52, label="odd"),
        "previous_label_is_known": prediction(53, previous_label="odd"),
        "anomalous_against_what_was_expected": [
            prediction(54, **ALARM, expected=None), prediction(55, **ALARM, events_learned=0)
        ],
        "events_learned_is_not_negative": prediction(56, events_learned=-1),
        "one_prediction_a_value": [2, prediction(57, event_time=NOON + 10 * MINUTE)],
    }),
    "alarms without end": told(
        anomaly_predictions, ANOMALY_PREDICTION, [*PREDICTED, *(prediction(number, **ALARM) for number in range(50, 80))],
        "alarms_end", "scores_are_usual",
    ),
    "latest_predictions": case(latest_predictions, LATEST_PREDICTION, LAST, {
        "key_is_there": last_of(None),
        "one_row_a_key": [2, last_of("key-3")],
        "score_is_from_0_to_1": last_of("c", score=-0.1),
        "label_is_known": last_of("d", label="odd"),
        "band_holds_what_is_expected": [last_of("e", expected=6.0), last_of("f", low=9.0, high=8.0)],
    }),
    "many anomalous series at once": told(
        latest_predictions, LATEST_PREDICTION,
        [*LAST, *(last_of(f"alarm-{number}", score=0.99, label="anomalous") for number in range(10))],
        "most_series_are_normal",
    ),
    "models that know little": told(
        latest_predictions, LATEST_PREDICTION,
        [*LAST, *(last_of(f"young-{number}", events_learned=5) for number in range(40))], "models_know_enough",
    ),
    "retired_models": case(retired_models, RETIRED_MODEL, RETIRED, {
        "key_is_there": retired(None),
        "has_learned": retired("b", events_learned=0),
        "retires_after_its_last_event": retired("c", retired_at=NOON),
        "a_model_retires_once": [2, retired("key-3")],
    }),
    "models that retire young": told(
        retired_models, RETIRED_MODEL, [*RETIRED, *(retired(f"young-{number}", events_learned=5) for number in range(40))],
        "models_were_worth_it",
    ),
    "models that retire again and again": told(
        retired_models, RETIRED_MODEL,
        [*RETIRED, *(retired(f"key-{number}", last_event_time=NOON + 9 * DAY) for number in range(10))],
        "series_do_not_come_and_go",
    ),
    "moving_averages": case(moving_averages, AVERAGES, AVERAGED, {
        "station_id_is_there": average(50, station=None),
        "ends_after_it_starts": average(51, end_time=NOON),
        "one_row_a_reading": [2, average(52, end_time=NOON + 10 * HOUR, start_time=NOON)],
        "has_readings": average(53, n_readings=0, reason="TIMEOUT"),
        "reason_is_known": average(54, reason="BORED"),
        "full_windows_are_of_one_size": average(55, n_readings=9),
        "pressure_is_plausible": average(56, pressure_avg=29.9),
        "temp_is_plausible": average(57, temp_avg=284.0),
    }),
    "stations that come and go": case(moving_averages, AVERAGES, [*AVERAGED[:20], AVERAGED[-1]], {
        "most_windows_are_full": [6, *(average(number, n_readings=4, reason="TIMEOUT") for number in range(100, 105))],
    }),
    "latest_moving_averages": case(latest_moving_averages, AVERAGES, LATEST, {
        "station_id_is_there": average(0, station=None),
        "one_row_a_station": [2, average(0, station="station-1")],
        "ends_after_it_starts": average(0, station="LGA", end_time=NOON - HOUR),
        "reason_is_known": average(0, station="BOS", reason="BORED"),
        "pressure_is_plausible": average(0, station="ORD", pressure_avg=29.9),
        "temp_is_plausible": average(0, station="SFO", temp_avg=284.0),
        "no_station_lags_behind": average(
            0, station="LAX", start_time=NOON - 40 * HOUR, end_time=NOON - 30 * HOUR
        ),
    }),
    "station_sessions": case(station_sessions, STATION_SESSION, SESSIONS, {
        "station_id_is_there": session(30, station_id=None),
        "ends_after_it_starts": session(31, end_time=NOON),
        "has_readings": session(32, n_readings=0),
        "reason_is_known": session(33, reason="BORED"),
        "sessions_do_not_overlap": session(34, start_time=NOON + 3310 * HOUR),
        "a_lone_reading_takes_no_time": session(35, n_readings=1),
    }),
    "sessions too short for a window": case(station_sessions, STATION_SESSION, SESSIONS, {
        "most_sessions_fill_a_window": [11, *(session(number, n_readings=4) for number in range(30, 40))],
    }),
    "fleet_days": case(fleet_days, FLEET_DAY, DAYS, {
        "vehicle_id_is_there": day(50, vehicle_id=None),
        "one_row_a_vehicle_and_day": [2, day(51, day=date(2026, 1, 4))],
        "kilometres_are_not_negative": day(52, kilometres=-1.0),
        "fuel_is_not_negative": day(53, fuel_used=-0.5),
        "times_are_not_negative": day(54, idle_seconds=-1.0),
        "there_is_a_trip": day(55, trips=0),
        "speed_is_plausible": day(56, kilometres=900.0),
    }),
    "distances that are unusual in the mean": told(
        fleet_days, FLEET_DAY, [*DAYS, day(50, kilometres=90_000.0)], "speed_is_plausible", "mean_distance_is_usual"
    ),
    "fleet_warnings": case(fleet_warnings, FLEET_WARNING, WARNINGS, {
        "vehicle_id_is_there": warning(500, vehicle_id=None),
        "warning_is_known": warning(500, warning="TIRED"),
        "change_is_known": warning(500, change="WENT_ON"),
        "begins_and_ends_by_turns": ended(97, 80),
        "ends_after_it_began": [
            warning(500, vehicle_id="bus-2", began_at=NOON), ended(500, 501, vehicle_id="bus-3")
        ],
        "geofences_are_named": warning(500, **{**YARD, "geofence": None}),
        "the_point_tells_why": warning(500, vehicle_id="bus-4", fuel_level=None),
        "engine_temperature_is_possible": warning(500, **{**HOT, "engine_temperature": 999.0}),
        "no_warning_holds_for_a_week": ended(50_000, 1, vehicle_id="bus-8"),
    }),
    "vehicle_trips": case(vehicle_trips, VEHICLE_TRIP, TRIPS, {
        "trip_id_is_unique": [2, trip(50, trip_id="bus-7@3")],
        "vehicle_id_is_there": trip(51, vehicle_id=None),
        "ends_after_it_starts": trip(52, end_time=NOON),
        "has_points": trip(53, n_points=0),
        "distance_is_not_negative": trip(54, distance_in_metres=-1.0),
        "reason_is_known": trip(55, reason="TIRED"),
        "times_add_up": [3, trip(56, idle_seconds=0.0)],  # those of wrong times too
        "trips_do_not_overlap": trip(57, start_time=NOON + 3365 * MINUTE),
        "speed_is_plausible": trip(58, average_speed=900.0),
        "fuel_is_not_negative": trip(59, fuel_used=-0.1),
        "fuel_efficiency_is_plausible": trip(60, litres_per_100_km=900.0),
        "hard_points_are_points": trip(61, harsh_braking=62),
        "engine_temperature_is_possible": trip(62, highest_engine_temperature=999.0),
    }),
    "vehicles that fall silent too often": case(vehicle_trips, VEHICLE_TRIP, TRIPS, {
        "most_trips_end_with_a_stop": [6, *(trip(number, reason="FELL_SILENT") for number in range(30, 35))],
    }),
    "vehicle_stops": case(vehicle_stops, VEHICLE_STOP, STOPS, {
        "vehicle_id_is_there": stop(50, vehicle_id=None),
        "ends_after_it_starts": stop(51, end_time=NOON),
        "has_points": stop(52, n_points=0),
        "reason_is_known": stop(53, reason="TIRED"),
        "stops_do_not_overlap": stop(54, start_time=NOON + 3235 * MINUTE),
        "latitude_is_on_earth": stop(55, latitude=91.0),
        "longitude_is_on_earth": stop(56, longitude=-181.0),
        "no_stop_takes_a_week": stop(57, vehicle_id="bus-8", end_time=NOON + 10 * DAY),
    }),
})  # fmt: skip
def test_each_fault_is_found_by_the_check_that_is_about_it(one):
    check_case(one)


def test_the_suite_knows_the_labels_of_the_job():
    assert list(LABELS) == anomaly_predictions.LABELS
