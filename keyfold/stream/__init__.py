"""Declare streams: columns, their sources, and what makes an event valid."""

from keyfold.stream.file_format import FileFormat
from keyfold.stream.job_table import JobTable
from keyfold.stream.source import INGESTED_AT, TIME_UNITS, TIMESTAMP, Source
from keyfold.stream.stream import Rule, Stream

__all__ = ["INGESTED_AT", "TIMESTAMP", "TIME_UNITS", "FileFormat", "JobTable", "Rule", "Source", "Stream"]
