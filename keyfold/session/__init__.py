"""Spark sessions: settings, the Java process behind a session, and a warm Spark that runs attach to."""

from keyfold.session.settings import SparkSettings
from keyfold.session.start import build_session

__all__ = ["SparkSettings", "build_session"]
