"""Define landings, and the names of landing folders in the journal."""

from keyfold.ingestion.sources.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place, path_below, to_place

Landing = Place | KafkaTopic
"""A source of events: a folder of files, on a disk or in a bucket, or a Kafka topic."""


def source_name(lakehouse: Lakehouse, landing: Place) -> str:
    """Return the name of a landing folder: its path below the lakehouse directory, which may be moved, or its full path."""
    inside = path_below(landing, lakehouse.home)
    return landing.as_posix() if inside is None else inside.as_posix()


def source_place(lakehouse: Lakehouse, source: str) -> Place:
    """Return the landing folder of a `source_name`."""
    return to_place(source) if source.startswith(("/", "s3a://")) else lakehouse.home / source
