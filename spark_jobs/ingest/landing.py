"""Where a stream's events come from: what a run is told, or what the deployment says."""

import os
from collections.abc import Mapping

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest.run import Landing
from spark_jobs.ingest.sources.kafka.settings import PREFIX, KafkaSettings, kafka_topics
from spark_jobs.ingest.sources.kafka.topic import KafkaTopic, OnGap, read_start
from spark_jobs.objects.place import to_place


def find_landing(
    stream: str,
    given: str | None = None,
    *,
    start: str | None = None,
    on_gap: str | None = None,
    anew: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Landing | None:
    """The folder or the topic that a run reads; None for the lakehouse's own folder of the stream.

    Args:
        stream: its name.
        given: a folder, `s3a://BUCKET/FOLDER`, `hdfs://HOST:PORT/FOLDER`, or `kafka://TOPIC`; without it, the topic that KEYFOLD_KAFKA_TOPICS names for the stream.
        start, on_gap, anew: of a topic, see `KafkaTopic`; `start` as a person writes it.
        environment: where settings come from.

    Raises:
        KeyfoldError: a topic's options were given to a folder, one is not written as it must be, or Kafka is not set up.

    Example:
        >>> find_landing("rides", "/data/rides", environment={})
        PosixPath('/data/rides')
        >>> find_landing("rides", environment={}) is None
        True
    """
    named = kafka_topics(environment).get(stream)
    source = given or (PREFIX + named if named else None)
    if source is not None and source.startswith(PREFIX):
        answers: dict[str, OnGap] = {"error": "error", "record": "record"}
        if on_gap and on_gap not in answers:
            raise KeyfoldError(f"on_gap is {on_gap!r}: give one of {', '.join(answers)}")
        return KafkaTopic(
            source.removeprefix(PREFIX),
            read_start(start or "earliest"),
            answers[on_gap or "error"],
            anew,
            KafkaSettings.from_environment(environment),
        )
    if start or on_gap or anew:
        raise KeyfoldError(
            f"start, on_gap and topic_anew go with a topic, as in {PREFIX}rides; {stream} is read from "
            f"{source or 'its landing folder'}"
        )
    return to_place(source) if source else None
