"""Reads raw events into typed, validated rows: NDJSON, CSV and Parquet files, and lines that came another way."""

from spark_jobs.ingest.parsing.files import parse_file
from spark_jobs.ingest.parsing.json_lines import parse_json_lines
from spark_jobs.ingest.parsing.rows import Reject, ValidatedRows
from spark_jobs.ingest.parsing.text import UnreadableFileError

__all__ = ["Reject", "UnreadableFileError", "ValidatedRows", "parse_file", "parse_json_lines"]
