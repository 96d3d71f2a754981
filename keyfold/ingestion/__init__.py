"""Ingest landing files and Kafka topics into event tables: incremental, exactly once, with every row accounted for.

A run writes a plan of its inputs. Workers write validated, de-duplicated rows as data files. A commit record names these
files, and the commits to the tables follow from it (`keyfold.journal`).

The names below are imported when they are first used: loading Dagster's definitions needs few of them.
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.ingestion.admission import is_known
    from keyfold.ingestion.ingest_records import IngestCounts, IngestSummary
    from keyfold.ingestion.ingest_settings import QUARANTINE
    from keyfold.ingestion.inspection import (
        consistent_tables,
        ingest_journal,
        ingest_totals,
        is_unfinished,
        known_files,
        read_topics,
    )
    from keyfold.ingestion.kafka.topic import KafkaTopic
    from keyfold.ingestion.listing import Landing
    from keyfold.ingestion.rebuilding import rebuild

__all__ = [
    "QUARANTINE",
    "IngestCounts",
    "IngestSummary",
    "KafkaTopic",
    "Landing",
    "consistent_tables",
    "ingest_journal",
    "ingest_totals",
    "is_known",
    "is_unfinished",
    "known_files",
    "read_topics",
    "rebuild",
]

_MODULES = {
    "keyfold.ingestion.admission": ("is_known",),
    "keyfold.ingestion.ingest_records": ("IngestCounts", "IngestSummary"),
    "keyfold.ingestion.ingest_settings": ("QUARANTINE",),
    "keyfold.ingestion.inspection": (
        "ingest_journal",
        "ingest_totals",
        "is_unfinished",
        "known_files",
        "read_topics",
        "consistent_tables",
    ),
    "keyfold.ingestion.rebuilding": ("rebuild",),
    "keyfold.ingestion.kafka.topic": ("KafkaTopic",),
    "keyfold.ingestion.listing": ("Landing",),
}
__getattr__ = lazy_names(globals(), _MODULES)
