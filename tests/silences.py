"""Events of any job whose times are as far apart as its durations, and what the job gives for them, however they come."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl
from polars.testing import assert_frame_equal

from keyfold import KeyedJob, TestHarness
from keyfold.testing.durations import silences_of, times_apart
from keyfold.testing.made_events import first_readers, made_events
from keyfold.testing.verifying import WAYS
from keyfold.times import shifted

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Frames = Mapping[str, pl.DataFrame]
Play = Callable[[KeyedJob, TestHarness, Frames, datetime], None]


def events_apart(job: KeyedJob, chance: random.Random) -> dict[str, pl.DataFrame]:
    """Draw events of each input, in the columns of its table, with silences around the durations of the job between them."""
    silences = silences_of(job) or (timedelta(minutes=1),)
    rows = made_events(job, {}, chance)
    times = times_apart(silences, chance, sum(map(len, rows.values())), NOON)
    chance.shuffle(times)
    frames = {}
    for name, first in first_readers(job).items():
        input_ = job.inputs[name]
        drawn = [{**row, input_.stored_time: times.pop()} for row in rows[first]] if name == first else None
        schema = pl.Schema(input_.stream.event_schema)
        frames[name] = frames[first] if drawn is None else pl.DataFrame(drawn, schema=schema, orient="row")
    return frames


def in_runs(job: KeyedJob, frames: Frames, borders: Sequence[datetime]) -> list[Frames]:
    """Cut events into runs that follow each other, by their times."""
    runs = []
    for since, until in zip([None, *borders], [*borders, None], strict=True):
        run = {}
        for name, rows in frames.items():
            time = pl.col(job.inputs[name].stored_time)
            is_in = pl.lit(value=True) if since is None else time >= since
            run[name] = rows.filter(is_in if until is None else is_in & (time < until))
        runs.append(run)
    return runs


def times_of(job: KeyedJob, frames: Frames) -> list[datetime]:
    """The times of all events, each once, in order."""
    return sorted({time for name, rows in frames.items() for time in rows[job.inputs[name].stored_time]})


def at_once(job: KeyedJob, harness: TestHarness, frames: Frames, now: datetime) -> None:
    """Play a run in one batch."""
    harness.batch(dict(frames), now)


def tables_of(job: KeyedJob, runs: Sequence[Frames], times: Sequence[datetime], play: Play) -> dict[str, pl.DataFrame]:
    """Play runs at processing times; return the tables at the end of all time, after counting the events."""
    harness = TestHarness(job)
    for frames, now in zip(runs, times, strict=True):
        play(job, harness, frames, now)
        harness.assert_nothing_lost()
    last = max([NOON, *(time for frames in runs for time in times_of(job, frames))])
    longest = max([timedelta(days=1), *silences_of(job)])
    # Twice: what a first deadline leaves may have another.
    for wait in (2, 4):
        harness.batch(None, shifted(max(times), wait * longest), advance_to=shifted(last, wait * longest))
    harness.assert_nothing_lost()
    return {table.name: harness.written[table.name] for table in job.own_tables}


def assert_one_answer_however_a_run_comes(job: KeyedJob, chance: random.Random) -> int:
    """Play two runs of events at silences, each at once, in any order and in slices; return the number of events.

    In processing time too, the runs are at silences around the durations of the job.
    """
    runs = [events_apart(job, chance), events_apart(job, chance)]
    times = sorted(times_apart(silences_of(job) or (timedelta(hours=1),), chance, 2, NOON))
    expected = tables_of(job, runs, times, at_once)
    for way, play in WAYS.items():
        _assert_same(tables_of(job, runs, times, play), expected, way)
    return sum(rows.height for frames in runs for rows in frames.values())


def assert_one_answer_in_any_runs(job: KeyedJob, chance: random.Random) -> None:
    """Play events at silences in one run, and in several that follow each other."""
    frames = events_apart(job, chance)
    expected = tables_of(job, [frames], [NOON], at_once)
    borders = [time for time in times_of(job, frames)[1:] if chance.random() < 0.3]
    runs = in_runs(job, frames, borders)
    _assert_same(tables_of(job, runs, [NOON] * len(runs), at_once), expected, f"in runs with borders {borders}")


def _assert_same(tables: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame], way: str) -> None:
    for name, rows in expected.items():
        try:
            assert_frame_equal(tables[name], rows, check_row_order=False, check_exact=True)
        except AssertionError as error:
            raise AssertionError(f"table {name} differs {way}: {error}\n{rows}\n{tables[name]}") from None
