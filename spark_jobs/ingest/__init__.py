"""Landing files and topics to event tables: incremental, exactly once, and every row accounted for.

A run plans what it reads, workers write validated, de-duplicated rows as data files, a done record names them, and the
tables take them by it: see `spark_jobs.journal`.
"""

from spark_jobs.ingest.admission import is_known
from spark_jobs.ingest.birth import QUARANTINE
from spark_jobs.ingest.continuous import ingest_continuously
from spark_jobs.ingest.inspection import (
    ingest_journal,
    ingest_totals,
    is_unfinished,
    known_files,
    read_topics,
    settled_tables,
)
from spark_jobs.ingest.known import KnownFile
from spark_jobs.ingest.rebuild import rebuild
from spark_jobs.ingest.records import IngestCounts
from spark_jobs.ingest.run import Landing, ingest
from spark_jobs.ingest.sources.kafka.topic import KafkaTopic
from spark_jobs.ingest.summary import IngestSummary

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
