"""Keyfold in Dagster: assets, checks, sensors, schedules and a resource, each to be put into any code location.

The names below are the public interface. They are plain definitions of Dagster: the executor, IO managers, launcher and instance
are those of the code location, and importing this package changes nothing.
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.dagster.alerting import alert_sensors
    from keyfold.dagster.assets.shown import JobAssets, StreamAssets
    from keyfold.dagster.automation.schedules import group_schedule
    from keyfold.dagster.automation.sensors import landing_sensor
    from keyfold.dagster.library import keyfold_assets, keyfold_group
    from keyfold.dagster.partitions.declared import Partitions
    from keyfold.dagster.resources import Keyfold, KeyfoldResource
    from keyfold.dagster.translator import KeyfoldTranslator

__all__ = [
    "JobAssets",
    "Keyfold",
    "KeyfoldResource",
    "KeyfoldTranslator",
    "Partitions",
    "StreamAssets",
    "alert_sensors",
    "group_schedule",
    "keyfold_assets",
    "keyfold_group",
    "landing_sensor",
]

__getattr__ = lazy_names(
    globals(),
    {
        "keyfold.dagster.alerting": ("alert_sensors",),
        "keyfold.dagster.assets.shown": ("JobAssets", "StreamAssets"),
        "keyfold.dagster.automation.schedules": ("group_schedule",),
        "keyfold.dagster.automation.sensors": ("landing_sensor",),
        "keyfold.dagster.library": ("keyfold_assets", "keyfold_group"),
        "keyfold.dagster.partitions.declared": ("Partitions",),
        "keyfold.dagster.resources": ("Keyfold", "KeyfoldResource"),
        "keyfold.dagster.translator": ("KeyfoldTranslator",),
    },
)
