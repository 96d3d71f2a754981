"""Find a stream's landing, given to a run or configured for the deployment."""

import os
from collections.abc import Mapping

from keyfold.errors import Misconfigured
from keyfold.ingestion.kafka.kafka_settings import (
    PREFIX,
    KafkaSettings,
    check_different,
    kafka_topics,
    values_by_stream,
)
from keyfold.ingestion.kafka.topic import KafkaTopic, OnGap, read_start
from keyfold.ingestion.listing import Landing
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place, to_place

LANDING_VARIABLE = "KEYFOLD_LANDING"


def find_landing(
    stream: str,
    source: str | None = None,
    *,
    start: str | None = None,
    on_gap: str | None = None,
    reset_topic: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Landing | None:
    """Return the folder or topic that a run reads; None for the default landing folder of the stream.

    Without `source`, it is the stream's topic in KEYFOLD_KAFKA_TOPICS, else its folder in KEYFOLD_LANDING.

    Args:
        stream: the stream's name.
        source: a folder, the URL of one in a bucket, or `kafka://TOPIC`.
        start, on_gap, reset_topic: options of a topic, see `KafkaTopic`; `start` as text.

    Raises:
        KeyfoldError: options of a topic are given for a folder, an option is invalid, or Kafka is not configured.

    Example:
        >>> find_landing("rides", "/data/rides", environment={})
        DiskPath('/data/rides')
        >>> find_landing("rides", environment={}) is None
        True
    """
    named = kafka_topics(environment).get(stream)
    chosen = source or (PREFIX + named if named else landing_folders(environment).get(stream))
    if chosen is not None and chosen.startswith(PREFIX):
        answers: dict[str, OnGap] = {"error": "error", "record": "record"}
        if on_gap and on_gap not in answers:
            raise Misconfigured(f"on_gap is {on_gap!r}: give one of {', '.join(answers)}")
        return KafkaTopic(
            chosen.removeprefix(PREFIX),
            read_start(start or "earliest"),
            answers[on_gap or "error"],
            reset_topic,
            KafkaSettings.from_environment(environment),
        )
    if start or on_gap or reset_topic:
        raise Misconfigured(
            f"start, on_gap and reset_topic go with a topic, as in {PREFIX}rides; {stream} is read from "
            f"{chosen or 'its landing folder'}"
        )
    return to_place(chosen) if chosen else None


def landing_folders(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the folders of KEYFOLD_LANDING, by stream. Entries are `stream=FOLDER`, separated by blanks.

    Raises:
        KeyfoldError: an entry is invalid, there is no such stream, it also has a topic, or two streams have one folder.

    Example:
        >>> landing_folders({"KEYFOLD_LANDING": "ride_points=/data/rides"})
        {'ride_points': '/data/rides'}
    """
    folders, places = values_by_stream(LANDING_VARIABLE, environment), dict[str, Place]()
    for stream, folder in folders.items():
        if not folder or folder.startswith(PREFIX):
            raise Misconfigured(f"{LANDING_VARIABLE}: {folder!r} is not a folder; name topics in KEYFOLD_KAFKA_TOPICS")
        # Raises if it is neither a path nor in a bucket.
        places[stream] = to_place(folder).expanduser().resolve()
        if stream in kafka_topics(environment):
            raise Misconfigured(
                f"{LANDING_VARIABLE} and KEYFOLD_KAFKA_TOPICS both name {stream}; remove it from one of them"
            )
    check_different(LANDING_VARIABLE, places)
    return folders


def landing_folder(lakehouse: Lakehouse, stream: str) -> Place:
    """Return the landing folder of a stream's files: that of KEYFOLD_LANDING, else the default one.

    Raises:
        KeyfoldError: as `landing_folders`.
    """
    folder = landing_folders().get(stream)
    return to_place(folder) if folder else lakehouse.landing(stream)
