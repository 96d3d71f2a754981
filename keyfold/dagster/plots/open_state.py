"""Plot open keys by age and due time, and the growth of state."""

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
    """Plot the age of open keys and the time to their deadlines, relative to the newest time in the state; shows no keys."""
    scan = scan_table(table)
    existing = scan.collect_schema().names()
    wanted = [name for name in ("open_since", "latest", "deadline") if name in existing]
    if "latest" not in wanted:
        return {}
    # A sample of the keys bounds memory; the shape of the histogram is enough.
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


def plot_state(statistics: StateStatistics) -> Mapping[str, dg.MetadataValue]:
    """Plot the growth of state over the last batches, and the largest key groups."""
    if not statistics.growth:
        return {}
    batches = [one.batch for one in statistics.growth]
    figure, (events, sizes, groups) = draw(3, height=2.4)
    events.plot(batches, [one.open_events for one in statistics.growth], color=MAIN)
    events.set_title("open events by batch")
    retained = [one for one in statistics.growth if one.bytes is not None]
    sizes.plot([one.batch for one in retained], [(one.bytes or 0) / 1e6 for one in retained], color=SECOND)
    sizes.set_title("MB of state by batch")
    groups.bar(
        [str(one["key_group"]) for one in statistics.largest], [one["rows"] for one in statistics.largest], color=MAIN
    )
    groups.set_title(f"rows of the largest key groups (of {statistics.groups_used:,})")
    return {
        "state_over_batches": picture(figure, f"Growth of the state of {statistics.job}, and its largest key groups")
    }


def _unit(seconds: pl.Series) -> tuple[str, int]:
    """Return the largest unit in which the median is at least one."""
    middle: Any = seconds.abs().median()
    return next(((unit, length) for unit, length in _UNITS if middle >= length), _UNITS[-1])
