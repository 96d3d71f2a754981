"""Spark sessions: settings, and the Java process behind a session."""

from keyfold.session.settings import SparkSettings
from keyfold.session.start import build_session

__all__ = ["SparkSettings", "build_session"]
