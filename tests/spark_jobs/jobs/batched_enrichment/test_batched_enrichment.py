"""The step of batched enrichment, without Spark or HTTP. Which events are a batch is tested with `buffer`."""

import json
import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.stream.refined import PartOf
from spark_jobs.jobs.batched_enrichment.job import (
    BATCHED_ENRICHMENT,
    DEAD_LETTERS,
    NAME,
    BatchedEnrichmentParameters,
    build,
)
from spark_jobs.jobs.batched_enrichment.protocol import Outcome
from spark_jobs.streams import STREAMS
from tests.examples import examples
from tests.on_a_grid import many_of, on_grid
from tests.shop import NOON

NOW = datetime(2026, 2, 1, tzinfo=UTC)
SMALL = {"max_size": 3, "max_wait": "10m", "stale_after": "5m", "delay": "5m"}


class Service:
    """Answers with the events' numbers, refuses those with a negative meter, and remembers what it was asked."""

    def __init__(self):
        self.batches, self.lock = [], threading.Lock()

    def __call__(self, batch):
        events = [json.loads(event) for event in batch.events]
        with self.lock:
            self.batches.append((batch.scope, batch.idempotency_key, events))
        return [
            Outcome(None, 1, 422, "refused")
            if event["meter_reading"] < 0
            else Outcome(json.dumps(event["point_idx"]), 1, 200)
            for event in events
        ]

    def calls(self):
        return sorted(
            (int(scope.rpartition("/")[2]), tuple((event["ride_id"], event["point_idx"]) for event in events))
            for scope, _, events in self.batches
        )

    def keys(self):
        return sorted(key for _, key, _ in self.batches)


def job_with(call, **parameters):
    async def calls(batch):
        return call(batch)

    return build(BatchedEnrichmentParameters.model_validate(parameters), lambda: nullcontext(calls))


def point(number, seconds=0.0, shard=0, ride="a", meter=1.0):
    return {
        "shard": shard,
        "ride_id": ride,
        "point_idx": number,
        "latitude": 40.0,
        "longitude": -74.0,
        "timestamp": NOON + timedelta(seconds=seconds),
        "meter_reading": meter,
        "meter_increment": None,
        "ride_status": "enroute",
        "passenger_count": 1,
    }


def frame(points, job):
    return pl.DataFrame(points, schema=polars_schema(job.columns), orient="row")


def play_points(*batches, end=None, **parameters):
    """Play batches of points; give the service and the harness."""
    service = Service()
    job = job_with(service, **{**SMALL, **parameters})
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(frame(batch, job), NOW)
    if end:
        harness.batch(None, NOW, advance_to=end)
    return service, harness


def test_a_row_is_its_event_with_the_answer_and_the_key_of_its_batch():
    service, harness = play_points([point(number, number) for number in range(3)])
    rows = harness.written[NAME].to_dicts()
    (key,) = service.keys()
    expected = [{**point(number, number), "enrichment": str(number), "idempotency_key": key} for number in range(3)]
    for row in expected:
        del row["shard"]
    assert rows == expected


def test_an_event_that_fails_for_good_is_a_dead_letter_with_its_story():
    service, harness = play_points([point(0), point(1, 1, meter=-1.0), point(2, 2)])
    (row,) = harness.written[DEAD_LETTERS].to_dicts()
    assert row["point_idx"] == 1
    assert (row["attempts"], row["status"], row["answer"]) == (1, 422, "refused")
    assert (row["idempotency_key"], row["failed_at"]) == (service.keys()[0], NOW)
    assert harness.written[NAME]["point_idx"].to_list() == [0, 2]


def test_a_call_that_raises_makes_dead_letters_and_no_failure():
    def broken(batch):
        raise RuntimeError("boom")

    job = job_with(broken, **SMALL)
    harness = TestHarness(job)
    harness.batch(frame([point(number) for number in range(3)], job), NOW)
    dead = harness.written[DEAD_LETTERS]
    assert dead["answer"].to_list() == ["RuntimeError: boom"] * 3
    assert harness.written[NAME].height == 0


def test_times_are_sent_in_iso_8601_and_what_is_missing_as_null():
    service, _ = play_points([{**point(0, 0.25), "latitude": float("nan")}], end=NOON + timedelta(days=1))
    ((_, _, (event,)),) = service.batches
    assert event == {
        **{name: value for name, value in point(0).items() if name != "shard"},
        "timestamp": "2026-01-01T12:00:00.250000Z",
        "latitude": None,
    }


def test_nobody_is_asked_for_a_connection_while_there_is_nothing_to_ask():
    def refuse():
        raise AssertionError

    job = build(BatchedEnrichmentParameters.model_validate({}), refuse)
    harness = TestHarness(job)
    harness.batch(frame([point(number) for number in range(5)], job), NOW)
    harness.batch(None, NOW)
    assert harness.state.height == 5


MINUTES = on_grid(40, 5)


@st.composite
def points_in_batches(draw):
    """Points of two rides in three shards, at whole minutes, in any order and split; some that will be refused."""
    drawn = draw(many_of(st.tuples(MINUTES, st.integers(0, 2), st.booleans(), st.booleans()), 30, 0))
    points = [
        point(index, 60 * minute, shard, "ab"[is_b], -1.0 if is_bad else 1.0)
        for index, (minute, shard, is_b, is_bad) in enumerate(drawn)
    ]
    points = draw(st.permutations(points))
    cuts = sorted(draw(st.lists(st.integers(0, len(points)), max_size=5)))
    return [points[a:b] for a, b in zip([0, *cuts], [*cuts, len(points)], strict=True)]


@examples(75)
@given(points_in_batches(), st.randoms())
def test_a_micro_batch_that_is_replayed_makes_the_same_calls_with_the_same_keys(batches, random):
    service = Service()
    job = job_with(service, **SMALL)
    harness = TestHarness(job)
    for batch in batches:
        state, watermark = harness.state, harness.watermark
        service.batches.clear()
        first = harness.batch(frame(batch, job), NOW)
        keys, calls = service.keys(), service.calls()
        assert len(set(keys)) == len(keys)
        crashed = TestHarness(job)
        crashed.state, crashed.watermark = state.sample(fraction=1, shuffle=True, seed=1), watermark
        service.batches.clear()
        again = crashed.batch(frame(random.sample(batch, len(batch)), job), NOW)
        assert (service.keys(), service.calls()) == (keys, calls)
        assert again.tables.keys() == first.tables.keys()
        assert all(again.tables[table].equals(rows) for table, rows in first.tables.items())
        assert again.state.equals(first.state)


@pytest.mark.parametrize("name", list(STREAMS))
def test_every_stream_can_be_enriched(name):
    stream = STREAMS[name]

    def call(batch):
        return [Outcome(event, 1, 200) for event in batch.events]

    job = job_with(call, stream=name)
    row: dict[str, Any] = {"shard": 0}
    for field in stream.schema:
        kind = str(field.type)
        row[field.name] = NOON if kind.startswith("timestamp") else 1 if kind in ("int32", "int64") else None
        row[field.name] = {"double": 1.5, "string": "x", "list<item: string>": ["b", "a"]}.get(kind, row[field.name])
    harness = TestHarness(job)
    harness.batch(pl.DataFrame([row] * 1001, schema=polars_schema(job.columns)), NOW)
    harness.batch(None, NOW + timedelta(minutes=5))
    # The same event twice is two events where the stream has no id, and each is answered.
    assert harness.written[NAME].height == 1001
    answered = json.loads(harness.written[NAME]["enrichment"][0])
    assert list(answered) == stream.schema.names
    assert answered[stream.event_time] == "2026-01-01T12:00:00.000000Z"


def test_the_shard_is_a_hash_of_what_identifies_an_event():
    assert build_job(BATCHED_ENRICHMENT).inputs["ride_points"].derived == {"shard": PartOf(("ride_id", "point_idx"), 4)}
    weather = build_job(BATCHED_ENRICHMENT, {"stream": "weather", "shards": 2})
    assert weather.inputs["weather"].derived == {"shard": PartOf(("station_id", "time"), 2)}
    sales = build_job(BATCHED_ENRICHMENT, {"stream": "sales"}).inputs["sales"].derived["shard"]
    assert sales == PartOf(tuple(STREAMS["sales"].schema.names), 4)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"stream": "clicks"}, "no stream 'clicks'; parameter stream takes one of ride_points"),
        ({"service": "elsewhere"}, "no service 'elsewhere' is named in KEYFOLD_ENRICHMENT_SERVICES.*there are: demo"),
        ({"max_size": 10_001}, "max_size is 10001; it must be 10000 at most"),
    ],
)
def test_wrong_settings_are_refused_when_the_job_is_built(parameters, reason):
    with pytest.raises(KeyfoldError, match=reason):
        build_job(BATCHED_ENRICHMENT, parameters)
