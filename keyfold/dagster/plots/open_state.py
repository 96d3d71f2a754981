"""Open keys: how long they have been open, and when they are due."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg
import polars as pl

from keyfold.dagster.plots.figure import MAIN, SECOND, draw, picture
from keyfold.lakehouse.reading import scan_table
from keyfold.state.reading.state_statistics import StateStatistics
from keyfold.storage.place import Place

_KEYS = 200_000
_BINS = 40
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def plot_open_keys(table: Place, job: str) -> Mapping[str, dg.MetadataValue]:
    """Age of open keys and time to their deadlines, counted from the newest time in any state; no key is named."""
    scan = scan_table(table)
    there = scan.collect_schema().names()
    wanted = [name for name in ("open_since", "latest", "deadline") if name in there]
    if "latest" not in wanted:
        return {}
    keys = scan.select(wanted).head(_KEYS).collect()
    now = keys["latest"].max()
    if not isinstance(now, datetime):
        return {}
    spans = {
        "open for": keys.select((now - pl.col("open_since")).dt.total_microseconds() / 1e6).to_series(),
        "due in (event time)": (
            keys.select((pl.col("deadline") - now).dt.total_microseconds() / 1e6).to_series()
            if "deadline" in wanted
            else pl.Series([], dtype=pl.Float64)
        ),
    }
    figure, panels = draw(2, height=2.4)
    for panel, (title, seconds), colour in zip(panels, spans.items(), (MAIN, SECOND), strict=True):
        values = seconds.drop_nulls()
        if values.len():
            unit, length = _unit(values)
            panel.hist((values / length).to_numpy(), bins=_BINS, color=colour)
            panel.set_xlabel(unit)
        panel.set_title(f"{title}: {values.len():,} keys")
    return {"open_keys_by_age": picture(figure, f"Age of open keys of {job}, and time to their deadlines")}


def plot_state(told: StateStatistics) -> Mapping[str, dg.MetadataValue]:
    """How state grew over the last batches, and how evenly it lies over key groups."""
    if not told.growth:
        return {}
    batches = [one.batch for one in told.growth]
    figure, (events, sizes, groups) = draw(3, height=2.4)
    events.plot(batches, [one.open_events for one in told.growth], color=MAIN)
    events.set_title("open events by batch")
    kept = [one for one in told.growth if one.bytes is not None]
    sizes.plot([one.batch for one in kept], [(one.bytes or 0) / 1e6 for one in kept], color=SECOND)
    sizes.set_title("MB of state by batch")
    groups.bar([str(one["key_group"]) for one in told.largest], [one["rows"] for one in told.largest], color=MAIN)
    groups.set_title(f"rows of the largest key groups (of {told.groups_used:,})")
    return {"state_over_batches": picture(figure, f"Growth of the state of {told.job}, and its largest key groups")}


def _unit(seconds: pl.Series) -> tuple[str, int]:
    """The largest unit in which the median is one at least."""
    middle: Any = seconds.abs().median()
    return next(((unit, length) for unit, length in _UNITS if middle >= length), _UNITS[-1])
