"""Spark sessions: their settings, and the start of one for those who have none.

Names are imported when they are first used: settings are read without loading pyspark, and a worker that checks its versions
(`keyfold.session.shipped`) loads none of the libraries.
"""

from typing import TYPE_CHECKING, Any

from keyfold.lazy_names import lazy_names
from keyfold.session.spark_settings import check_spark_is_installed

if TYPE_CHECKING:
    from keyfold.session.spark_settings import SparkSettings
    from keyfold.session.start import build_session

__all__ = ["SparkSettings", "build_session"]

_of_module = lazy_names(
    globals(), {"keyfold.session.spark_settings": ("SparkSettings",), "keyfold.session.start": ("build_session",)}
)


def __getattr__(name: str) -> Any:
    if name == "build_session":
        check_spark_is_installed()
    return _of_module(name)
