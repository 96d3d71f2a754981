"""Spark sessions: settings, and the Java process behind a session.

`build_session` is imported when it is first used: settings are read without loading pyspark.
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names
from keyfold.session.settings import SparkSettings

if TYPE_CHECKING:
    from keyfold.session.start import build_session

__all__ = ["SparkSettings", "build_session"]

__getattr__ = lazy_names(globals(), {"keyfold.session.start": ("build_session",)})
