"""The sensor on a topic: pure decisions, the same as for files, and what Dagster is told of them."""

from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.dagster.automation import sensors
from keyfold.dagster.automation.new_data import Decision, decide_on_messages
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.resources import Keyfold
from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka.offsets import ReadTopic, TopicState
from keyfold.runners import Runners
from spark_jobs.streams import RIDE_POINTS

MINUTE = 60_000_000_000
NOW = 10_000 * MINUTE


def topic(*ends: int, first: int = 0, identity: str = "a") -> TopicState:
    begin = dict.fromkeys(range(len(ends)), first)
    return TopicState("rides", identity, begin, dict(enumerate(ends)), begin)


def read(*offsets: int, identity: str = "a") -> ReadTopic:
    return ReadTopic(id=identity, next=dict(enumerate(offsets)))


def decided(
    state: TopicState, taken: ReadTopic | None, before: Decision | None = None, minutes: float = 0, **more: bool
):
    return decide_on_messages(state, taken, before.cursor if before else None, NOW + int(minutes * MINUTE), **more)


def test_all_messages_that_were_not_read_go_into_one_run():
    assert decided(topic(5, 0, 2), None).new == 7
    assert decided(topic(5, 0, 2), read(4, 0)).new == 3
    nothing = decided(topic(5, 0), read(5, 0))
    assert (nothing.new, nothing.reason) == (0, "no new messages in topic rides")


def test_what_was_read_is_not_new_whatever_the_cursor_and_what_was_not_is():
    asked = decided(topic(5), None)
    assert not decided(topic(5), read(5), asked).new
    assert decided(topic(6), read(5), asked).new == 1


def test_a_topic_made_anew_asks_for_the_run_that_says_so():
    assert decided(topic(2, identity="b"), read(5)).new == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=20))
def test_a_reader_that_follows_the_sensor_has_read_all_in_the_end(steps):
    end, taken, decision = 0, None, None
    for minutes, (more, works) in enumerate(steps):
        end += more
        decision = decided(topic(end), taken, decision, minutes * 300)
        if decision.new and works:
            taken = read(end)
    final = decided(topic(end), taken, decision, len(steps) * 300 + 10_000)
    assert final.new or "no new messages" in final.reason
    if not final.new:
        assert end == (taken.next[0] if taken else 0)


def test_the_sensor_tells_dagster_of_new_messages_and_of_brokers_that_cannot_be_reached(lakehouse, monkeypatch):
    assert landing_sensor(RIDE_POINTS).name == "ride_points_landed"
    monkeypatch.setenv("KEYFOLD_KAFKA_TOPICS", "ride_points=city.rides")
    with pytest.raises(KeyfoldError, match="KEYFOLD_KAFKA_BOOTSTRAP is not set"):
        landing_sensor(RIDE_POINTS)
    monkeypatch.setenv("KEYFOLD_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    sensor = landing_sensor(RIDE_POINTS)
    assert sensor.name == "ride_points_lags"

    def tick() -> Any:
        resources = {"keyfold": Keyfold(lakehouse, Runners("local"))}
        with (
            dg.DagsterInstance.ephemeral() as instance,
            dg.build_sensor_context(instance=instance, resources=resources) as context,
        ):
            return sensor(context)

    def unreachable(_: object) -> TopicState:
        raise KeyfoldError("topic rides: Kafka at a:1 does not answer: Connection refused")

    monkeypatch.setattr(sensors, "topic_state", lambda _: topic(5, 1))
    told = tick()
    assert [request.tags["keyfold/new"] for request in told.run_requests] == ["6"]
    assert told.asset_events[0].asset_key == dg.AssetKey("ride_points_landing")
    assert told.asset_events[0].metadata["new_messages"].value == 6
    monkeypatch.setattr(sensors, "topic_state", unreachable)
    assert "Connection refused" in str(tick())
