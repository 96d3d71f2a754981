"""Spark: its settings, the Java process behind a session, and a warm one that stays for runs to attach to."""

from spark_jobs.session.settings import SparkSettings
from spark_jobs.session.start import build_session

__all__ = ["SparkSettings", "build_session"]
