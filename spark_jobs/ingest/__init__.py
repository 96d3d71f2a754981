"""Landing files to event tables: incremental, exactly once, and every row accounted for."""

from spark_jobs.ingest.counts import Counts, ingest_totals
from spark_jobs.ingest.run import QUARANTINE, IngestSummary, ingest

__all__ = ["QUARANTINE", "Counts", "IngestSummary", "ingest", "ingest_totals"]
