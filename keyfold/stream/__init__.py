"""Declare streams: columns, their sources, and what makes an event valid."""

from keyfold.stream.source import TIME_UNITS, Source
from keyfold.stream.stream import INGESTED_AT, TIMESTAMP, Rule, Stream

__all__ = ["INGESTED_AT", "TIMESTAMP", "TIME_UNITS", "Rule", "Source", "Stream"]
