"""Reads raw events into typed tables: NDJSON, CSV and Parquet files, and lines that came another way."""

from spark_jobs.parsing.files import parse_file, parse_files
from spark_jobs.parsing.json_lines import parse_json_lines
from spark_jobs.parsing.rows import parsed_schema

__all__ = ["parse_file", "parse_files", "parse_json_lines", "parsed_schema"]
