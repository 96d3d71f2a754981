"""Kafka's settings: what is refused at once, and what shows of them."""

import os
from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.ingestion.ingest_lock import require_landing
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings, kafka_topics
from keyfold.ingestion.kafka.topic import KafkaTopic
from spark_jobs.streams import STREAMS

CONF = "security.protocol=SASL_SSL sasl.mechanisms=PLAIN sasl.username=ann sasl.password=planted-word"


def environment(**more: str) -> dict[str, str]:
    return {"KEYFOLD_KAFKA_BOOTSTRAP": "a.example.org:9092, b.example.org:9092", **more}


def test_settings_come_from_the_environment_and_show_no_value():
    found = KafkaSettings.from_environment(environment(KEYFOLD_KAFKA_CONF=CONF))
    assert found.bootstrap == "a.example.org:9092,b.example.org:9092"
    assert found.client()["sasl.password"] == "planted-word"
    # librdkafka checks a broker's certificate and its name unless it is told not to.
    assert not [name for name in found.client() if "verification" in name or "identification" in name]
    assert "planted" not in repr(found)
    assert found.without_secrets("login of ann with planted-word failed") == "login of ann with (hidden) failed"


def test_a_file_of_settings_must_be_its_user_s_alone(tmp_path: Path):
    file = tmp_path / "kafka.conf"
    file.write_text("# of the cluster\nsecurity.protocol=SSL\nssl.key.password='two words'\n")
    given = environment(KEYFOLD_KAFKA_CONF=f"@{file}")
    file.chmod(0o640)
    with pytest.raises(KeyfoldError, match="chmod 600"):
        KafkaSettings.from_environment(given)
    file.chmod(0o600)
    assert KafkaSettings.from_environment(given).conf == {"security.protocol": "SSL", "ssl.key.password": "two words"}
    file.unlink()
    with pytest.raises(KeyfoldError, match="cannot be read: No such file"):
        KafkaSettings.from_environment(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"KEYFOLD_KAFKA_BOOTSTRAP": ""}, "KEYFOLD_KAFKA_BOOTSTRAP is not set"),
        ({"KEYFOLD_KAFKA_BOOTSTRAP": "planted:secret@host"}, "must be host:port"),
        ({"KEYFOLD_KAFKA_CONF": "sasl.password planted-word"}, "has no '='"),
        ({"KEYFOLD_KAFKA_CONF": "isolation.level=read_uncommitted"}, "isolation.level is set by Keyfold"),
        ({"KEYFOLD_KAFKA_CONF": "bootstrap.servers=x:1"}, "is set by its own variable, KEYFOLD_KAFKA_BOOTSTRAP"),
    ],
)
def test_what_cannot_be_is_refused_without_repeating_it(given, told):
    with pytest.raises(KeyfoldError, match=told) as raised:
        KafkaSettings.from_environment(environment() | given)
    assert "planted" not in str(raised.value)


def test_a_worker_with_other_settings_is_told_which_and_not_what():
    driver = KafkaSettings.from_environment(environment(KEYFOLD_KAFKA_CONF=CONF))
    own = {name: value for name, value in os.environ.items() if not name.startswith("KEYFOLD_KAFKA")}
    with pytest.raises(KeyfoldError, match=r"sasl\.mechanisms, sasl\.password, .*where Spark is started"):
        KafkaSettings.of_worker(driver.bootstrap, sorted(driver.conf), own)
    worker = KafkaSettings.of_worker(driver.bootstrap, sorted(driver.conf), own | {"KEYFOLD_KAFKA_CONF": CONF})
    assert worker == driver


def test_topics_of_streams_are_named_by_the_environment():
    assert kafka_topics({}) == {}
    assert kafka_topics({"KEYFOLD_KAFKA_TOPICS": "ride_points=city.rides weather=w_1"}) == {
        "ride_points": "city.rides",
        "weather": "w_1",
    }
    for wrong in ("a/b", "", "x" * 250, ".."):
        with pytest.raises(KeyfoldError, match="names of topics are"):
            kafka_topics({"KEYFOLD_KAFKA_TOPICS": f"weather={wrong}"})
    with pytest.raises(KeyfoldError, match="names rides, but there is no such stream; streams: ride_points"):
        kafka_topics({"KEYFOLD_KAFKA_TOPICS": "rides=rides"})


def test_ingest_takes_a_topic_by_its_address_and_asks_for_brokers(lakehouse, monkeypatch):
    monkeypatch.setenv("KEYFOLD_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    landing = require_landing(lakehouse, STREAMS["weather"], "kafka://city.weather")
    assert isinstance(landing, KafkaTopic)
    assert (landing.name, landing.settings.bootstrap, landing.start) == ("city.weather", "127.0.0.1:1", "earliest")
    monkeypatch.delenv("KEYFOLD_KAFKA_BOOTSTRAP")
    with pytest.raises(Misconfigured, match="KEYFOLD_KAFKA_BOOTSTRAP is not set"):
        require_landing(lakehouse, STREAMS["weather"], "kafka://city.weather")
