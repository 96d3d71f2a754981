"""Landing files and topics to event tables: incremental, exactly once, and every row accounted for.

A run plans what it reads, workers write validated, de-duplicated rows as data files, a done record names them, and the
tables take them by it: see `keyfold.journal`.
"""

from keyfold.ingest.admission import is_known
from keyfold.ingest.continuous import ingest_continuously
from keyfold.ingest.ingest_settings import QUARANTINE
from keyfold.ingest.inspection import (
    ingest_journal,
    ingest_totals,
    is_unfinished,
    known_files,
    read_topics,
    settled_tables,
)
from keyfold.ingest.known import KnownFile
from keyfold.ingest.rebuild import rebuild
from keyfold.ingest.records import IngestCounts
from keyfold.ingest.run import Landing, ingest
from keyfold.ingest.sources.kafka.topic import KafkaTopic
from keyfold.ingest.summary import IngestSummary

__all__ = [
    "QUARANTINE",
    "IngestCounts",
    "IngestSummary",
    "KafkaTopic",
    "KnownFile",
    "Landing",
    "ingest",
    "ingest_continuously",
    "ingest_journal",
    "ingest_totals",
    "is_known",
    "is_unfinished",
    "known_files",
    "read_topics",
    "rebuild",
    "settled_tables",
]
