"""Reads raw events into typed, validated rows: NDJSON, CSV and Parquet files, and messages."""

from keyfold.ingest.parsing.files import parse_file
from keyfold.ingest.parsing.messages import parse_messages
from keyfold.ingest.parsing.rows import Reject, ValidatedRows
from keyfold.ingest.parsing.text import UnreadableFileError

__all__ = ["Reject", "UnreadableFileError", "ValidatedRows", "parse_file", "parse_messages"]
