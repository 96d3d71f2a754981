"""`KafkaTopic`, a topic as a source of ingest, its state at the broker, and outages, for which a continuous run waits."""

import atexit
import os
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from keyfold.errors import KeyfoldError, Misconfigured, NotFound, Unreachable
from keyfold.ingestion.kafka.kafka_settings import (
    BOOTSTRAP_VARIABLE,
    CONF_VARIABLE,
    PREFIX,
    KafkaSettings,
    check_topic,
)
from keyfold.ingestion.kafka.offsets import TopicState
from keyfold.lazy_names import from_extra
from keyfold.times import from_iso, micros

if TYPE_CHECKING:
    from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec
else:
    IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition = from_extra(
        "kafka",
        "confluent_kafka",
        "IsolationLevel",
        "KafkaError",
        "KafkaException",
        "TopicCollection",
        "TopicPartition",
    )
    AdminClient, OffsetSpec = from_extra("kafka", "confluent_kafka.admin", "AdminClient", "OffsetSpec")

TIMEOUT = 15.0
"""Seconds to wait for a broker's answer."""

Start = Literal["earliest", "latest"] | datetime
OnGap = Literal["error", "record"]


@dataclass(frozen=True)
class KafkaTopic:
    """A topic as a source of ingest.

    Attributes:
        name: name of the topic.
        start: where the first run begins: `earliest`, `latest`, or the first message from a time on. Partitions that are
            added later are always read from their beginning.
        on_gap: how to treat messages that expired unread: as an `error`, or as a row in quarantine (`record`).
        reset: read a topic that was deleted and created again, or truncated, from its beginning.
        settings: settings of the connection; by default from the environment.
    """

    name: str
    start: Start = "earliest"
    on_gap: OnGap = "error"
    reset: bool = False
    settings: KafkaSettings = field(default_factory=KafkaSettings.from_environment)

    def __post_init__(self) -> None:
        check_topic(self.name)

    @property
    def source(self) -> str:
        """The name of the topic in plans and in quarantine: `kafka://TOPIC`."""
        return PREFIX + self.name


def read_start(text: str) -> Start:
    """Parse `earliest`, `latest`, or an ISO 8601 time.

    Raises:
        KeyfoldError: the text is none of these.
    """
    words: dict[str, Start] = {"earliest": "earliest", "latest": "latest"}
    try:
        return words.get(text) or from_iso(text)
    except ValueError:
        raise Misconfigured(f"start is {text!r}: give earliest, latest, or a time as in 2026-01-31T12:00:00Z") from None


def topic_state(topic: KafkaTopic) -> TopicState:
    """Return the current offsets of a topic, for a reader of committed messages.

    Raises:
        KeyfoldError: the broker does not answer, refuses access, or has no such topic.
    """
    cluster = _cluster(topic.settings)
    identity, partitions = cluster.describe(topic.name)
    there = [TopicPartition(topic.name, number) for number in partitions]
    first = cluster.offsets(topic.name, there, OffsetSpec.earliest())
    # With isolation level READ_COMMITTED this is the last stable offset: later messages may still be aborted.
    end = cluster.offsets(topic.name, there, OffsetSpec.latest())
    if isinstance(topic.start, datetime):
        # Integer division, since a float may be off by one. Negative numbers are codes for Kafka (-1: the newest).
        at_time = OffsetSpec.for_timestamp(max(micros(topic.start) // 1000, 0))
        offsets = cluster.offsets(topic.name, there, at_time)
        begin = {number: offset if offset >= 0 else end[number] for number, offset in offsets.items()}
    else:
        begin = first if topic.start == "earliest" else end
    return TopicState(topic.name, identity, first, end, begin)


def topic_id(topic: KafkaTopic) -> str:
    """Return the broker's id of a topic; empty if there is no such topic.

    Raises:
        KeyfoldError: the broker does not answer, or refuses access.
    """
    try:
        return _cluster(topic.settings).describe(topic.name)[0]
    except _NoSuchTopicError:
        return ""


class UnreachableError(Unreachable):
    """No broker answers, or none can answer now."""


class _NoSuchTopicError(NotFound):
    pass


@cache
def _final_codes() -> frozenset[int]:
    """Error codes that do not go away by waiting. Brokers that start, stop or move report a dozen others."""
    return frozenset(
        {
            KafkaError._AUTHENTICATION,
            KafkaError._SSL,
            KafkaError._INVALID_ARG,
            KafkaError._UNSUPPORTED_FEATURE,
            KafkaError.SASL_AUTHENTICATION_FAILED,
            KafkaError.UNSUPPORTED_SASL_MECHANISM,
            KafkaError.SECURITY_DISABLED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.UNSUPPORTED_VERSION,
            KafkaError.INVALID_REQUEST,
            KafkaError.TOPIC_EXCEPTION,
        }
    )


class _Cluster:
    """A client for the metadata of topics."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings, self._trouble, self._is_refused = settings, "", False
        try:
            self._admin = AdminClient(settings.client(error_cb=self._remember))
        except KafkaException as error:
            raise Misconfigured(
                f"Kafka's client refuses its settings: {settings.without_secrets(error.args[0].str())}; correct KEYFOLD_KAFKA_CONF"
            ) from None

    def describe(self, topic: str) -> tuple[str, list[int]]:
        """Return a topic's id and its partitions."""
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT)
        described = self._answer(topic, asked[topic])
        return str(described.topic_id), sorted(partition.id for partition in described.partitions)

    def offsets(self, topic: str, there: list[TopicPartition], spec: Any) -> dict[int, int]:
        """Return an offset of each partition."""
        wanted: Any = dict.fromkeys(there, spec)
        asked = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT)
        return {partition.partition: self._answer(topic, answer).offset for partition, answer in asked.items()}

    def _answer(self, topic: str, future: "Future[Any]") -> Any:
        try:
            return future.result()
        except KafkaException as error:
            fault: KafkaError = error.args[0]
        cluster = f"Kafka at {self._settings.bootstrap}"
        if fault.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _NoSuchTopicError(f"there is no topic {topic} in {cluster}; create it, or name another")
        why = "; ".join(filter(None, (self._settings.without_secrets(fault.str()), self._trouble)))
        # A refused login looks like a broker that does not answer; only the client's callback distinguishes them.
        kind = KeyfoldError if fault.code() in _final_codes() or self._is_refused else UnreachableError
        raise kind(
            f"topic {topic}: {cluster} does not answer: {why}. Check that it runs, and that {BOOTSTRAP_VARIABLE} and "
            f"{CONF_VARIABLE} are right"
        )

    def _remember(self, error: KafkaError) -> None:
        self._trouble = self._settings.without_secrets(error.str())
        self._is_refused = error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)


_clusters: dict[tuple[int, str, frozenset[tuple[str, str]]], _Cluster] = {}
# Close clients before Python shuts down: a client thread that calls into a dying interpreter crashes the process.
atexit.register(_clusters.clear)


def _cluster(settings: KafkaSettings) -> _Cluster:
    """Return the client for a cluster, connected once: continuous ingest asks several times per second."""
    # Keyed by process, since a client's threads do not survive a fork.
    key = (os.getpid(), settings.bootstrap, frozenset(settings.conf.items()))
    if key not in _clusters:
        _clusters.clear()
        _clusters[key] = _Cluster(settings)
    return _clusters[key]


PAUSE = 1.0
"""Seconds between attempts while Kafka is unreachable, besides the time that each attempt waits for an answer."""


def is_unreachable(topic: KafkaTopic, error: KeyfoldError) -> bool:
    """Whether an error means that brokers do not answer now but may later, and not that a topic or a login is wrong."""
    if isinstance(error, UnreachableError):
        return True
    # A worker reports both missing messages and a full disk as an OSError with text: ask the brokers which it was.
    if isinstance(error.__cause__, OSError):
        try:
            topic_state(topic)
        except UnreachableError:
            return True
        except KeyfoldError:
            return False
    return False
