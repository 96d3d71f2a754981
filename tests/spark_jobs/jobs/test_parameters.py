"""Parameters that cannot be are refused by every job where they are given, with the reason."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.registry import JOBS

REFUSED = {
    "moving_averages": [
        ({"timeout_in": "arrival"}, "timeout_in is 'arrival'; it must be one of event_time, processing_time"),
        ({"columns": "pressure,tmep"}, "no column tmep; did you mean .* There are station_id, time, temp"),
        ({"columns": "location"}, "location_avg: String is no number"),
        ({"columns": "temp,temp"}, "temp_avg is there twice"),
        ({"columns": []}, "columns"),
        ({"n_readings": 0}, "n_readings"),
        ({"n_readings": 3, "min_readings": 4}, "from_n is 4; it must be 1 at least and at most n, 3"),
        ({"min_readings": 0}, "min_readings"),
    ],
    "vehicle_trips": [
        ({"moving_speed": -1}, "moving_speed"), ({"stop_after": "0s"}, "stop_after"), ({"silence": "x"}, "silence"),
        ({"stopafter": "1m"}, "stopafter"),
    ],
    "purchase_totals": [
        ({"order": "random"}, "order is 'random'"),
        ({"timeout_in": "processing_time"}, "timeout_in=processing_time requires expire_after"),
        ({"delay": "365001d"}, "job purchase_totals: delay is "),
    ],
    "top_products": [
        ({"k": 0}, "k is 0; it must be 1 or more"), ({"window": "0s"}, "window is "), ({"n": 1}, "TopProductsParameters has no parameter n; there are"),
        *(({"window": length}, "job top_products: window is ") for length in ("365001d", "1e9d", "9999999999h")),
    ],
    "fleet_days": [
        ({"timezone": "Mars/Base"}, "timezone"), ({"timezone": "localtime"}, "timezone"), ({"x": 1}, "x"),
        ({"time": "arrival"}, "time=arrival, and it reads vehicle_trips alone, whose rows have no arrival"),
    ],
    "fleet_warnings": [
        ({"low_fuel": 20}, "low_fuel"), ({"hot_engine": 90}, "hot_engine"), ({"low_fuel": 0}, "low_fuel"),
        ({"geofence_margin": -1}, "geofence_margin"),
    ],
    "anomaly_predictions": [
        ({"model": "oracle"}, "model"), ({"learn": "never"}, "learn"), ({"min_change": 2}, "min_change"),
        ({"threshold": -1}, "threshold"), ({"forget_after": "0s"}, "forget_after"),
        *(
            ({"order": "arrival", "learn": learn}, f"requires learn=every_event or learn=refresh: {learn} processes")
            for learn in ("every_interval", "complete_window")
        ),
    ],
    "event_index": [
        ({"stream": "sails"}, "no stream 'sails'; parameter stream takes one of ride_points"),
        ({"key": "ride"}, r"key: there is no column ride; did you mean ride_id\? There are ride_id, point_idx"),
        ({"stream": "sales", "key": "item,invoice"}, "key column invoice may be NULL"),
        ({"key": "timestamp"}, "key: timestamp is the event time, which orders the events of a key"),
        ({"key": "ride_id,ride_id"}, "ride_id is there twice"),
        ({"key": []}, "key is "),
        ({"window": "1h", "expire_after": "2h"}, "give either window or expire_after, not both"),
        ({"window": "an hour"}, "window is 'an hour': write a length, `1h`, or a length and how often a window begins"),
        ({"window": "1h every"}, "write a length"),
        ({"window": "1h every 15m every 5m"}, "write a length"),
        ({"window": 60}, "window is 60: write a length"),
        ({"window": "0s"}, "a window and the time from one to the next must be positive"),
        ({"window": "1h every 0s"}, "the time from one to the next must be positive"),
        ({"window": "15m every 1h"}, "windows of 15m that begin every 1h leave gaps.* begin every 15m at most"),
        ({"window": "1d every 1s"}, r"in 86,400 windows, a row in each; it may be in 1000 at most"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("job", "given", "reason"), [(job, *case) for job, cases in REFUSED.items() for case in cases], ids=str
)
def test_a_parameter_that_cannot_be_is_refused_with_the_reason(job, given, reason):
    with pytest.raises(KeyfoldError, match=reason):
        build_job(JOBS[job], given)


def test_a_job_without_an_expiry_keeps_no_column_for_it():
    columns = build_job(JOBS["purchase_totals"]).state.schema.names
    assert columns == ["item", "cumulative_quantity", "_models", "time", "quantity", "models", "deadline"]
