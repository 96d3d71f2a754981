"""Reads raw events into typed, validated rows: NDJSON, CSV and Parquet files, and messages."""

from spark_jobs.ingest.parsing.files import parse_file
from spark_jobs.ingest.parsing.messages import parse_messages
from spark_jobs.ingest.parsing.rows import Reject, ValidatedRows
from spark_jobs.ingest.parsing.text import UnreadableFileError

__all__ = ["Reject", "UnreadableFileError", "ValidatedRows", "parse_file", "parse_messages"]
