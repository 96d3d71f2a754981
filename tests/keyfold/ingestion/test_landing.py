"""Where a stream's events come from: what a run is told goes before what the deployment says."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import KafkaTopic
from keyfold.ingestion.landing import find_landing

KAFKA = {"KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:9092", "KEYFOLD_KAFKA_TOPICS": "weather=w.obs"}


def test_a_topic_of_the_deployment_goes_before_the_landing_folder_and_what_is_given_before_both():
    named = find_landing("weather", environment=KAFKA)
    assert isinstance(named, KafkaTopic)
    assert (named.name, named.start, named.on_gap, named.anew) == ("w.obs", "earliest", "error", False)
    assert find_landing("sales", environment=KAFKA) is None
    assert find_landing("weather", "/data", environment=KAFKA) == Path("/data")
    given = find_landing("sales", "kafka://s", start="2026-01-01T01:00:00+01:00", on_gap="record", environment=KAFKA)
    assert isinstance(given, KafkaTopic)
    assert (given.source, given.start, given.on_gap) == ("kafka://s", datetime(2026, 1, 1, tzinfo=UTC), "record")


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        ("/data", {"start": "latest"}, "go with a topic, as in kafka://rides; sales is read from /data"),
        (None, {"anew": True}, "sales is read from its landing folder"),
        ("kafka://s", {"on_gap": "ignore"}, "on_gap is 'ignore': give one of error, record"),
        ("kafka://s", {"start": "noon"}, "noon"),
        ("kafka://a/b", {}, "the topic is 'a/b'"),
        ("kafka://", {}, "the topic is ''"),
    ],
)
def test_what_does_not_go_together_is_refused(given, options, told):
    with pytest.raises(KeyfoldError, match=told):
        find_landing("sales", given, environment=KAFKA, **options)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KEYFOLD_LANDING", "sales=/data/all weather=/data/all/"),
        ("KEYFOLD_LANDING", "sales=s3a://lake/all weather=s3a://lake/all"),
        ("KEYFOLD_KAFKA_TOPICS", "sales=all weather=all"),
    ],
)
def test_two_streams_have_no_source_in_common(variable: str, value: str):
    with pytest.raises(
        KeyfoldError, match=rf"{variable} gives sales and weather the same source, .*all, .* of its own"
    ):
        find_landing("sales", environment={variable: value, "KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:9092"})
