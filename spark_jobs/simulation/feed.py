"""Turn clean events into lines in the order of arrival, add faults, and count them."""

from collections.abc import Callable

import numpy as np
import polars as pl

from spark_jobs.simulation.contract import MINUTE, SECOND, Arrival, Floats, Format, Ints, LineCounts, SimulatedEvents


def feed(
    rng: np.random.Generator, made: SimulatedEvents, arrival: Arrival, files: int, *, copies: bool
) -> tuple[pl.DataFrame, LineCounts]:
    """Make the lines of clean events, with faults.

    Args:
        made: the clean events.
        arrival: the arrival of the events.
        files: number of files, at most that of events.
        copies: whether to duplicate some lines.

    Returns:
        The lines in the order of arrival (`file`, a number; `place`, the order of the lines within a file; `line`; `key`), and
        their counts.
    """
    events, out_of_order, late = _in_order_of_arrival(rng, made, arrival, files)
    parts, duplicates = [events], 0
    if copies:
        parts.append(_copies(rng, events, files, travel=not made.file_by_key))
        duplicates = len(parts[-1])
    malformed, faults = _malformed(rng, events, made)
    lines = pl.concat([part.select("file", "place", "line", "key") for part in (*parts, malformed)])
    counts = LineCounts(
        rows=len(lines),
        events=len(events),
        duplicates=duplicates,
        malformed=len(malformed),
        malformed_by_fault=faults,
        out_of_order=out_of_order,
        late=late,
        untimed=int(events["untimed"].sum()),
    )
    return lines.sort("file", "place"), counts


def _in_order_of_arrival(
    rng: np.random.Generator, made: SimulatedEvents, arrival: Arrival, files: int
) -> tuple[pl.DataFrame, int, int]:
    """Order the events by arrival, with `file` and `place`; return them, and how many are out of order and late."""
    events, count = made.events, len(made.events)
    times: Ints = events["time"].to_numpy()
    over: Ints = events["over"].to_numpy()
    arrives: Floats = times + rng.exponential(arrival.delay * SECOND, count)
    held_back = rng.random(count) < 0.04
    least, most = arrival.held_back
    arrives[held_back] += rng.uniform(least * MINUTE, most * MINUTE, held_back.sum())
    least, most = arrival.late_by
    # Only early events can be late: newer ones must arrive before them.
    early = np.flatnonzero(over < times.max() - (most + 5) * MINUTE)
    stragglers = rng.choice(early, min(len(early), max(1, count // 200)), replace=False)
    arrives[stragglers] = over[stragglers] + rng.uniform(least * MINUTE, most * MINUTE, len(stragglers))
    order = np.argsort(arrives, kind="stable")
    place = np.arange(count)
    # Places are floats, so that copies and malformed lines fit between two events.
    arrived = events[order].with_columns(file=pl.Series(place * files // count), place=pl.Series(place * 1.0))
    if made.file_by_key:
        arrived = arrived.with_columns(file=pl.col("key").rank("dense").cast(pl.Int64) - 1)
    arrived = arrived.with_columns(line=_by_format(made, lambda form: pl.col(form.ending)))
    arrived = arrived.with_columns(untimed=_by_format(made, lambda form: form.untimed))
    # Compare only events whose line has a time: a reader cannot detect that others are out of order.
    known_time = pl.when(~pl.col("untimed")).then("time")
    # Lines are in the order of arrival, so the running maximum is the newest time that a reader has seen.
    newest = known_time.cum_max().over("key") if arrival.by_key else known_time.cum_max()
    behind = arrived.select(event=newest - pl.col("time"), over=newest - pl.col("over"))
    out_of_order = (behind["event"] > arrival.out_of_order * MINUTE).sum()
    late = (behind["over"] > arrival.late * MINUTE).sum()
    return arrived, int(out_of_order), int(late)


def _by_format(made: SimulatedEvents, of: Callable[[Format], pl.Expr]) -> pl.Expr:
    """Select the expression of the format of each event's file."""
    turn = pl.col("file") % len(made.formats)
    return pl.coalesce(pl.when(turn == at).then(of(form)) for at, form in enumerate(made.formats))


def _copies(rng: np.random.Generator, events: pl.DataFrame, files: int, *, travel: bool) -> pl.DataFrame:
    """Copy some events exactly: half right after the original, half at the end of one of the next two files.

    Without `travel`, the second half is at the end of the original's file.
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
    """Make malformed lines from good ones, and place each next to its original; return them, and the number by fault."""
    each = max(1, len(events) // 1000)
    parts, faults = [], {}
    for turn, form in enumerate(made.formats):
        pool = events.filter(pl.col("file") % len(made.formats) == turn)
        for fault, expression in form.faults.items():
            near = pool[rng.choice(len(pool), each, replace=len(pool) < each)]
            parts.append(near.with_columns(line=expression, place=pl.col("place") + 0.25))
            faults[fault] = each
    return pl.concat(parts), faults
