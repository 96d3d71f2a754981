"""The suites of rides, payments and enriched events: each fault beside good rows fails the check that is about it alone."""

from datetime import timedelta

from expectations import (
    batched_enrichment,
    batched_enrichment_dead_letters,
    card_in_two_cities,
    event_index,
    ride_meter_jumps,
    ride_summaries,
    ride_weather,
)
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.batched_enrichment.job import BATCHED_ENRICHMENT
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARY
from spark_jobs.streams import METRICS, RIDE_STATUSES
from tests.expectations.faults import Row, case, check_case, each, told
from tests.shop import NOON

EARLIER, MINUTE, HOUR = NOON - timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WEATHER, CARDS, METERS = (build_job(JOBS[name]) for name in ("ride_weather", "card_in_two_cities", "ride_meter_jumps"))


def ride(number, **changes):
    times = {"start_time": NOON, "end_time": NOON + 10 * MINUTE, "ride_duration_in_secs": 600.0}
    ends = {"start_status": "pickup", "end_status": "dropoff", "reason": "DROPOFF_SEEN"}
    way = {
        "n_points": 60,
        "distance_in_metres": 4_000.0,
        "fare": 12.5,
        "start_latitude": 40.7,
        "start_longitude": -74.0,
    }
    return {"ride_id": f"ride-{number}", **times, **ends, **way, **changes}


def weathered(number, **changes):
    return {"station_id": "JFK", "ride_id": f"ride-{number}", "start_time": NOON, "time": NOON, "temp": 50.0, **changes}


def match(number, **changes):
    firsts = {"first_time": NOON, "first_city": "Ulm", "first_amount": 1.5, "first_merchant": None}
    lasts = {"last_time": NOON + 5 * MINUTE, "last_city": "Trier", "last_amount": 200.0, "last_merchant": "kiosk"}
    ids = {"first_payment_id": f"{number}a", "last_payment_id": f"{number}b"}
    return {"card": f"card {number}", "pattern": "two_cities", **firsts, **lasts, **ids, **changes}


def jump(number, **changes):
    times = {"first_time": NOON, "last_time": NOON + timedelta(seconds=9)}
    points = {"first_point_idx": 3, "last_point_idx": 4, "first_meter_reading": 3.0, "last_meter_reading": 13.0}
    return {"ride_id": f"ride {number}", "pattern": "jump", **times, **points, **changes}


EVENT: Row = {"key": "cpu", "timestamp": NOON}
KEY = "0123456789abcdef" * 4
ENRICHED, DEAD, _ = (table.schema for table in build_job(BATCHED_ENRICHMENT, {"stream": METRICS.name}).tables)
FAILED = "nothing_failed_for_good"


def enriched(number, **changes):
    return {**EVENT, "value": float(number), "enrichment": f'{{"n":{number}}}', "idempotency_key": KEY, **changes}


def letter(number, **changes):
    story = {"idempotency_key": KEY, "attempts": 1, "status": 422, "answer": "rejected", "failed_at": NOON}
    return {**EVENT, "value": float(number), **story, **changes}


INDEX = build_job(EVENT_INDEX).main.schema


def point(index, ride: str | None = "a", **changes):
    good = {"ride_id": ride, "timestamp": NOON + index * MINUTE, "event_index": index}
    return {**dict.fromkeys(INDEX.names), **good, **changes}


def points(ride):
    return [point(index, ride) for index in range(20)]


RIDES = [*map(ride, range(30)), ride(99, end_status="enroute", reason="GARBAGE_COLLECTION", fare=None)]
# A station of Death Valley, and a ride far from all stations.
WEATHERED = [
    *map(weathered, range(100)), weathered(200, temp=134.0), weathered(201, station_id="", time=None, temp=None)
]  # fmt: skip
MATCHES, JUMPS = [*map(match, range(5))], [*map(jump, range(5))]
ANSWERS = [*map(enriched, range(30))]
OTHER_ANSWERS = [enriched(100 + place, enrichment=text) for place, text in enumerate(["3", '"a\nb"', "true", "[1]"])]
RIDES_OF_POINTS = [*(one for name in "abcdef" for one in points(name)), point(20, timestamp=NOON + 19 * MINUTE)]


@each({
    "ride_summaries": case(ride_summaries, RIDE_SUMMARY, RIDES, {
        "ride_id_is_there": ride(100, ride_id=None),
        "one_summary_a_ride": [2, ride(0)],
        "ends_after_it_starts": ride(102, end_time=EARLIER),
        "duration_is_not_negative": ride(103, ride_duration_in_secs=-1.0, distance_in_metres=0.0),
        "has_points": ride(104, n_points=0),
        "distance_is_not_negative": ride(105, distance_in_metres=-1.0),
        "start_status_is_known": ride(106, start_status="teleporting"),
        "reason_is_known": ride(107, reason="TIRED"),
        "dropoff_seen_means_dropoff": [2, ride(108, reason="GARBAGE_COLLECTION")],  # TIRED means none either
        "speed_is_plausible": ride(109, distance_in_metres=900_000.0),
        "fare_is_not_negative": ride(110, fare=-3.0),
        "end_status_is_known": ride(111, end_status="teleporting", reason="GARBAGE_COLLECTION"),
    }),
    "rides that start without pickups": case(ride_summaries, RIDE_SUMMARY, [*map(ride, range(10))], {
        "most_rides_start_with_a_pickup": [ride(number, start_status="enroute") for number in range(10, 20)],
    }),
    "rides that last long in the mean": told(
        ride_summaries, RIDE_SUMMARY, [*RIDES, ride(200, ride_duration_in_secs=1e9)], "mean_duration_is_usual"
    ),
    "ride_weather": case(ride_weather, WEATHER.main.schema, WEATHERED, {
        "ride_id_is_there": weathered(300, ride_id=None),
        "one_row_a_ride": [2, weathered(0)],
        "reading_is_not_of_later": weathered(301, time=NOON + timedelta(seconds=1)),
        "only_rides_near_a_station_have_a_reading": weathered(302, station_id=""),
        "temp_is_plausible": weathered(303, temp=200.0),
    }),
    "rides without weather": case(ride_weather, WEATHER.main.schema, WEATHERED[:5], {
        "most_rides_have_weather": [weathered(number, time=None, temp=None) for number in range(400, 405)],
    }),
    "good matches": told(card_in_two_cities, CARDS.main.schema, MATCHES),
    "card_in_two_cities": told(
        card_in_two_cities, CARDS.main.schema,
        [
            *MATCHES, match(6, card=None), match(7, pattern="another"), match(0), match(8, last_city="Ulm"),
            match(9, last_time=EARLIER), match(10, last_amount=0.0), match(11, last_payment_id=None),
            *(match(number, card="busy") for number in range(20, 41)),
        ],
        *card_in_two_cities.EXPECTATIONS,
    ),
    "good jumps": told(ride_meter_jumps, METERS.main.schema, JUMPS),
    "ride_meter_jumps": told(
        ride_meter_jumps, METERS.main.schema,
        [
            *JUMPS, jump(6, ride_id=None), jump(7, pattern="another"), jump(0), jump(8, last_meter_reading=3.0),
            jump(9, last_time=EARLIER), jump(10, last_point_idx=2),
            *(jump(11, first_point_idx=at) for at in range(-6, 0)),
        ],
        *ride_meter_jumps.EXPECTATIONS,
    ),
    "good answers": told(batched_enrichment, ENRICHED, [*ANSWERS, *OTHER_ANSWERS]),
    "no answers": told(batched_enrichment, ENRICHED, []),
    "batched_enrichment": case(batched_enrichment, ENRICHED, [*map(enriched, range(50))], {
        "enrichment_is_there": enriched(99, enrichment=None),
        "enrichment_is_json": enriched(100, enrichment="<html>"),
        "idempotency_key_is_there": enriched(101, idempotency_key=None),
        "idempotency_key_is_a_hash": enriched(102, idempotency_key="a"),
        "no_event_is_enriched_twice": enriched(3, idempotency_key="f" * 64),
    }),
    "empty answers": told(
        batched_enrichment, ENRICHED,
        [enriched(number, enrichment="{}" if number % 5 else '{"n":1}') for number in range(30)], "few_answers_are_empty",
    ),
    "small batches": told(
        batched_enrichment, ENRICHED, [enriched(number, idempotency_key=f"{number // 2:064x}") for number in range(30)],
        "batches_are_worth_their_calls",
    ),
    "a large batch": told(
        batched_enrichment, ENRICHED, [enriched(number) for number in range(MAX_EVENTS + 1)], "no_batch_is_too_large"
    ),
    "good dead letters": told(
        batched_enrichment_dead_letters, DEAD,
        [letter(0), letter(1, status=None, attempts=5, answer="no answer within 10 s")], FAILED,
    ),
    "no dead letters": told(batched_enrichment_dead_letters, DEAD, []),
    "batched_enrichment_dead_letters": case(batched_enrichment_dead_letters, DEAD, [*map(letter, range(3))], {
        "idempotency_key_is_there": letter(99, idempotency_key=None),
        "idempotency_key_is_a_hash": letter(100, idempotency_key="a"),
        "was_tried": letter(101, attempts=0),
        "answer_is_there": letter(102, answer=None),
        "failed_at_is_there": letter(103, failed_at=None),
        "status_is_one_of_http": letter(104, status=7),
        "service_understands_us": letter(105, status=401),
        FAILED: [10],
    }),
    "a service that was down": told(
        batched_enrichment_dead_letters, DEAD, [letter(number, status=None if number else 503) for number in range(4)],
        "service_answers", FAILED,
    ),
    "event_index": case(event_index, INDEX, RIDES_OF_POINTS, {
        "ride_id_is_there": point(0, None),
        "event_index_is_there": point(0, "b", event_index=None),
        "counts_from_nought": point(0, "c", event_index=-1),
        "one_event_a_number": [2, point(19, "d")],
        "no_number_is_skipped": [4, point(21, "e")],  # of all with a fault but for the last
        "numbers_follow_time": point(20, "f", timestamp=NOON),
    }),
    "a key of very many events": told(
        event_index, INDEX, [*points("a"), point(10**8, "c", timestamp=NOON)], "no_number_is_skipped", "mean_index_is_usual"
    ),
})  # fmt: skip
def test_each_fault_is_found_by_the_check_that_is_about_it(one):
    check_case(one)


def test_suites_know_the_statuses_of_the_stream_and_the_most_events_of_a_call():
    assert ride_summaries.EXPECTATIONS["end_status_is_known"]["kwargs"]["value_set"] == list(RIDE_STATUSES)
    query = batched_enrichment.EXPECTATIONS["no_batch_is_too_large"]["kwargs"]["unexpected_rows_query"]
    assert query.endswith(f"> {MAX_EVENTS}")
