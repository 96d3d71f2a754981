"""The lock of a stream's ingest, and the landing folder or topic that it reads."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from keyfold.errors import KeyfoldError, NotFound
from keyfold.ingestion.event_rewrites import apply_rewrites
from keyfold.ingestion.ingest_settings import REBUILD, RECORD
from keyfold.ingestion.kafka.kafka_settings import PREFIX, KafkaSettings
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.ingestion.listing import Landing
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import to_place
from keyfold.storage.reachable import check_conditions
from keyfold.stream import Stream


@contextmanager
def ingest_lock(lakehouse: Lakehouse, stream: Stream, landing: Landing | Path | str | None) -> Iterator[Landing]:
    """Hold the lock of a stream's ingest, and yield the landing folder or topic, once calls that changed its events are carried out.

    Raises:
        KeyfoldError: the folder is missing, a rebuild is unfinished, another run ingests the stream, or the lakehouse is in a
            store without conditional writes.
    """
    landing, folder = require_landing(lakehouse, stream, landing), lakehouse.ingest(stream.name)
    check_conditions(folder)
    # One run per stream, not per source: no other run may add events while this one looks up duplicates.
    with folder.exclusive(f"ingest of {stream.name}"):
        if (folder / REBUILD).exists():
            raise KeyfoldError(
                f"ingest of {stream.name}: a rebuild of its tables is unfinished; finish it with "
                f"`{lakehouse.command('ingest', stream.name, '--rebuild')}`"
            )
        apply_rewrites(lakehouse, stream.name)
        yield landing


def require_landing(lakehouse: Lakehouse, stream: Stream, landing: Landing | Path | str | None) -> Landing:
    """Return the landing folder, after checking that it exists, or the topic.

    Raises:
        KeyfoldError: the folder is missing, the topic's name is none, or Kafka is not configured.

    Example:
        >>> KAFKA = {"KEYFOLD_KAFKA_BOOTSTRAP": "broker.example.org:9092"}
        >>> topic_of("kafka://city.rides", KAFKA).name
        'city.rides'
    """
    if isinstance(landing, str) and landing.startswith(PREFIX):
        return topic_of(landing)
    if isinstance(landing, KafkaTopic):
        return landing
    landing = to_place(landing or lakehouse.landing(stream.name)).expanduser().resolve()
    # An empty folder of a bucket does not exist. After a first run that is fine: files that were read may be deleted.
    is_emptied = landing.local_path is None and (lakehouse.ingest(stream.name) / RECORD).exists()
    if not is_emptied and not landing.is_dir():
        raise NotFound(f"the landing folder {landing} does not exist; create it and put files of {stream.name} into it")
    return landing


def topic_of(source: str, environment: Mapping[str, str] = os.environ) -> KafkaTopic:
    """Return the topic that a text names: `kafka://TOPIC`, at the brokers of KEYFOLD_KAFKA_BOOTSTRAP.

    Raises:
        KeyfoldError: the name is none of a topic, or Kafka is not configured.
    """
    return KafkaTopic(source.removeprefix(PREFIX), settings=KafkaSettings.from_environment(environment))
