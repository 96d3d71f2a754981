"""Parse raw events into typed, validated rows: NDJSON, CSV and Parquet files, and Kafka messages."""

from keyfold.ingestion.parsing.formats import faults_of_files, parse_file, parse_file_safely, parse_messages
from keyfold.ingestion.parsing.rows import Reject, ValidatedRows
from keyfold.ingestion.parsing.text import UnreadableFileError

__all__ = [
    "Reject",
    "UnreadableFileError",
    "ValidatedRows",
    "faults_of_files",
    "parse_file",
    "parse_file_safely",
    "parse_messages",
]
