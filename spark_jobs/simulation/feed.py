"""Turns clean events into lines as they arrive: out of order, late, twice, malformed; and counts each of these."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from spark_jobs.simulation.contract import Arrival, Floats, Ints, SimulatedEvents
from spark_jobs.times import micros


@dataclass(frozen=True)
class Feed:
    """Lines in the order of arrival, and what is in them.

    Attributes:
        lines: `file` (a number), `place` (orders the lines of a file), `line` and `key`.
        events: well-formed events, each counted once.
        duplicates: exact copies.
        malformed: lines by what is wrong with them.
        out_of_order: of the events.
        late: of the events.
    """

    lines: pl.DataFrame
    events: int
    duplicates: int
    malformed: Mapping[str, int]
    out_of_order: int
    late: int


def feed(rng: np.random.Generator, made: SimulatedEvents, arrival: Arrival, files: int, *, copies: bool) -> Feed:
    """The lines of clean events and of what goes wrong with them.

    Args:
        rng: where chance comes from.
        made: the clean events.
        arrival: how they arrive.
        files: over how many files to spread them, no more than there are events.
        copies: whether some come more than once.
    """
    events, out_of_order, late = _in_order_of_arrival(rng, made, arrival, files)
    parts, duplicates = [events], 0
    if copies:
        parts.append(_copies(rng, events, files, travel=not made.file_by_key))
        duplicates = len(parts[-1])
    malformed, faults = _malformed(rng, events, made)
    lines = pl.concat([part.select("file", "place", "line", "key") for part in (*parts, malformed)])
    return Feed(lines.sort("file", "place"), len(events), duplicates, faults, out_of_order, late)


def _in_order_of_arrival(
    rng: np.random.Generator, made: SimulatedEvents, arrival: Arrival, files: int
) -> tuple[pl.DataFrame, int, int]:
    """The events as they arrive, with their `file` and `place`; how many are out of order and late."""
    events, count = made.events, len(made.events)
    times: Ints = events["time"].to_numpy()
    over: Ints = events["over"].to_numpy()
    arrives: Floats = times + rng.exponential(micros(arrival.delay), count)
    held_back = rng.random(count) < 0.04
    least, most = arrival.held_back
    arrives[held_back] += rng.uniform(micros(least), micros(most), held_back.sum())
    least, most = arrival.late_by
    # Only events that are over early enough for something newer to arrive before the late one does.
    early = np.flatnonzero(over < times.max() - micros(most) - micros(timedelta(minutes=5)))
    stragglers = rng.choice(early, min(len(early), max(1, count // 200)), replace=False)
    arrives[stragglers] = over[stragglers] + rng.uniform(micros(least), micros(most), len(stragglers))
    order = np.argsort(arrives, kind="stable")
    place = np.arange(count)
    arrived = events[order].with_columns(file=pl.Series(place * files // count), place=pl.Series(place * 1.0))
    if made.file_by_key:
        arrived = arrived.with_columns(file=pl.col("key").rank("dense").cast(pl.Int64) - 1)
    newest = pl.col("time").cum_max().over("key") if arrival.by_key else pl.col("time").cum_max()
    behind = arrived.select(event=newest - pl.col("time"), over=newest - pl.col("over"))
    out_of_order = (behind["event"] > micros(arrival.out_of_order)).sum()
    late = (behind["over"] > micros(arrival.late)).sum()
    return arrived.with_columns(line=_line(made)), int(out_of_order), int(late)


def _line(made: SimulatedEvents) -> pl.Expr:
    """The line of an event in the format of its file."""
    turn = pl.col("file") % len(made.formats)
    return pl.coalesce(pl.when(turn == at).then(pl.col(form.ending)) for at, form in enumerate(made.formats))


def _copies(rng: np.random.Generator, events: pl.DataFrame, files: int, *, travel: bool) -> pl.DataFrame:
    """Exact copies of some events: half right behind the first, half at the end of one of the next two files.

    Where lines do not travel from file to file, that half is at the end of its own.
    """
    count = max(2, len(events) // 50)
    chosen = events[rng.choice(len(events), count, replace=len(events) < count)]
    on = pl.Series("on", rng.integers(1, 2, count, endpoint=True) * (np.arange(count) % 2))
    file = pl.min_horizontal(pl.col("file") + on, files - 1) if travel else pl.col("file")
    at_end = file > pl.col("file") if travel else on > 0
    return chosen.with_columns(
        file=file, place=pl.when(at_end).then(float(len(events))).otherwise(pl.col("place") + 0.5)
    )


def _malformed(
    rng: np.random.Generator, events: pl.DataFrame, made: SimulatedEvents
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Lines that are no events, beside good ones."""
    each = max(1, len(events) // 1000)
    parts, faults = [], {}
    for turn, form in enumerate(made.formats):
        pool = events.filter(pl.col("file") % len(made.formats) == turn)
        for fault, expression in form.faults.items():
            near = pool[rng.choice(len(pool), each, replace=len(pool) < each)]
            parts.append(near.with_columns(line=expression, place=pl.col("place") + 0.25))
            faults[fault] = each
    return pl.concat(parts), faults
