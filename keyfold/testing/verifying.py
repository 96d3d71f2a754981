"""Verify that a job's answer depends on its events alone, and not on how they come.

Made events, or a sample, are played to the job in other ways that must give the same tables and state: in any order within a run,
cut into slices of event time, combined in parts, in one run or in a run for each time, and in files to the engine. Every event
must be in a table or in state. What fails is made small, and written as a test.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from tempfile import TemporaryDirectory

import polars as pl
from polars.testing import assert_frame_equal

from keyfold.journal.clock import LATEST_ADVANCE
from keyfold.keyed.calling.harness import TestHarness, in_one_frame, time_in
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import PROCESSING_DEADLINE
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import read_table
from keyfold.project_folder import definitions_module
from keyfold.runners import Runners
from keyfold.testing.durations import durations_of
from keyfold.testing.made_events import NOON, Rows, drawn_silences, first_readers, made_events, made_history
from keyfold.testing.playing import combined, restart

_HOUR = timedelta(hours=1)
_AFTER_ALL = timedelta(days=400)
"""How long after the last event, and all durations, event time ends: longer than any window of a calendar."""


@dataclass(frozen=True)
class Counterexample:
    """Events of which a job gives different answers.

    Attributes:
        job: name of the job.
        way: how the events came: a name of `WAYS`, or `IN_FILES`.
        runs: the events of each run.
        difference: what differs.
        between: processing time between two runs.
    """

    job: str
    way: str
    runs: Sequence[Rows]
    difference: str
    between: timedelta = _HOUR

    def as_test(self) -> str:
        """Return a test file that fails until the job gives one answer."""
        module = definitions_module()
        return (
            f'"""Found by `keyfold verify {self.job}`: the answer differs when the events come {self.way}."""\n\n'
            "import datetime\n\nfrom keyfold.project import project_jobs\nfrom keyfold.testing import assert_one_answer\n\n"
            f"RUNS = {[{name: list(rows) for name, rows in run.items()} for run in self.runs]!r}\n\n\n"
            f"def test_{self.job}_gives_one_answer():\n"
            f"    assert_one_answer(project_jobs({repr(module) if module else ''})[{self.job!r}], RUNS, {self.way!r}, {self.between!r})\n"
        )


def verify(
    job: KeyedJob, sample: Mapping[str, pl.DataFrame] | None = None, *, rounds: int = 20, seed: int = 0
) -> Counterexample | None:
    """Play a job in all ways, with other events in each round; return the smallest counterexample found, or None.

    Args:
        job: the job; its step must be pure.
        sample: events to draw from, by input, in the columns of its table; inputs without are given made events.
        rounds: how often events are drawn.
        seed: of the events that are drawn.

    Example:
        >>> from spark_jobs.jobs.model_totals import MODEL_TOTALS
        >>> verify(MODEL_TOTALS, rounds=1) is None
        True
    """
    # In processing time the engine's answer depends on when it runs, and what another job wrote is read with its journal.
    is_alone = PROCESSING_DEADLINE not in job.state.schema.names and not job.lookups and not job.producers
    for number in range(rounds):
        chance = random.Random(seed * 1_000_003 + number)
        in_order = number % 2 == 1
        runs = (
            made_history(job, sample or {}, chance)
            if in_order
            else [made_events(job, sample or {}, chance) for _ in range(2)]
        )
        between = chance.choice([_HOUR, *drawn_silences(job)])
        ways = [
            *WAYS,
            *(DIVISIONS if in_order else []),
            *([IN_FILES] if is_alone and number % 5 == 0 else []),
        ]
        for way in ways:
            if difference := _difference(job, runs, way, between):
                return _smallest(Counterexample(job.name, way, runs, difference, between), job)
    return None


def assert_one_answer(job: KeyedJob, runs: Sequence[Rows], way: str, between: timedelta = _HOUR) -> None:
    """Check that events give the same tables and state in a way as they do in order, one run at a time.

    Args:
        job: the job.
        runs: the events of each run; for `DIVISIONS`, none is before or at the time of one of an earlier run.
        way: one of `WAYS` or `DIVISIONS`, or `IN_FILES`.
        between: processing time between two runs.

    Raises:
        AssertionError: the answers differ, or an event is in no table and not in state.
    """
    if difference := _difference(job, runs, way, between):
        raise AssertionError(f"job {job.name}: the answer differs when the events come {way}: {difference}")


Tables = Mapping[str, pl.DataFrame]
"""The rows of each table at the end."""

_Frames = Sequence[Mapping[str, pl.DataFrame]]
_Play = Callable[[KeyedJob, TestHarness, Mapping[str, pl.DataFrame], datetime], None]


def _in_order(job: KeyedJob, harness: TestHarness, frames: Mapping[str, pl.DataFrame], now: datetime) -> None:
    harness.batch({name: rows.sort(time_in(job.inputs[name], rows)) for name, rows in frames.items()}, now)


def _shuffled(job: KeyedJob, harness: TestHarness, frames: Mapping[str, pl.DataFrame], now: datetime) -> None:
    # Not by `reverse`, by which Polars makes lists of any type lists of nothing where all are NULL.
    mixed = {name: rows[[*range(rows.height - 1, -1, -1)]] for name, rows in frames.items()}
    if len(job.inputs) > 1 or job.only_input.combine is None:
        harness.batch(mixed, now)
        return
    input_, (rows,) = job.only_input, mixed.values()
    newest = rows[time_in(input_, rows)].max()
    # Events that the condition leaves out advance event time too.
    watermark = newest - input_.watermark_delay if isinstance(newest, datetime) else None
    harness.batch(combined(job, in_one_frame(job, mixed), 2), now, watermark)


def _in_slices(job: KeyedJob, harness: TestHarness, frames: Mapping[str, pl.DataFrame], now: datetime) -> None:
    times = sorted({time for name, rows in frames.items() for time in rows[time_in(job.inputs[name], rows)]})
    # As the engine cuts them: not among late events.
    cuts = [time for time in times[1:] if time > harness.watermark]
    for since, until in pairwise([None, *cuts, None]):
        part = {}
        for name, rows in frames.items():
            time = pl.col(time_in(job.inputs[name], rows))
            is_in = pl.lit(value=True) if since is None else time >= since
            part[name] = rows.filter(is_in if until is None else is_in & (time < until))
        harness.batch(part, now)
        restart(harness)


WAYS: Mapping[str, _Play] = {"in any order": _shuffled, "in slices of event time": _in_slices}
"""How events may come within a run, besides in files to the engine (`IN_FILES`)."""


def _in_one_run(job: KeyedJob, runs: _Frames) -> _Frames:
    return [{name: pl.concat([frames[name] for frames in runs]) for name in job.inputs}] if runs else []


def _a_run_for_each_time(job: KeyedJob, runs: _Frames) -> _Frames:
    divided = []
    for frames in runs:
        times = {name: rows[time_in(job.inputs[name], rows)] for name, rows in frames.items()}
        for time in sorted(set().union(*map(set, times.values()))):
            divided.append({name: rows.filter(times[name] == time) for name, rows in frames.items()})
    return divided


DIVISIONS: Mapping[str, Callable[[KeyedJob, _Frames], _Frames]] = {
    "in one run": _in_one_run,
    "in a run for each time": _a_run_for_each_time,
}
"""How events that follow each other in time may be divided into runs."""

IN_FILES = "in files, to the engine"


def _played(job: KeyedJob, runs: _Frames, play: _Play, between: timedelta, end: datetime) -> Tables:
    harness = TestHarness(job)
    for number, frames in enumerate(runs):
        play(job, harness, frames, NOON + number * between)
        harness.assert_nothing_lost()
    harness.batch(None, max(end, NOON + len(runs) * between), advance_to=end)
    harness.assert_nothing_lost()
    return {table.name: harness.written[table.name] for table in job.own_tables}


def _end(job: KeyedJob, runs: _Frames) -> datetime:
    """Return a time at which everything is over."""
    newest = [rows[time_in(job.inputs[name], rows)].max() for frames in runs for name, rows in frames.items()]
    last = max((time for time in newest if isinstance(time, datetime)), default=NOON)
    return min(last + max(durations_of(job), default=timedelta(0)) + _AFTER_ALL, LATEST_ADVANCE)


def _by_engine(job: KeyedJob, runs: _Frames, end: datetime) -> Tables:
    with TemporaryDirectory() as folder:
        lakehouse, local = Lakehouse(folder), Runners("local")
        for frames in runs:
            for name in set(first_readers(job).values()):
                rows = frames[name]
                place = lakehouse.events(job.inputs[name].stream.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                for part in (rows[::2], rows[1::2]):
                    part.write_delta(str(place), mode="append")
            run_job(lakehouse, job, options=RunOptions(max_bytes_per_batch=1), runners=local)
        run_job(lakehouse, job, Incremental(advance_to=end), runners=local)
        assert_nothing_lost(lakehouse, job)
        return {table.name: read_table(lakehouse, table.name).collect() for table in job.own_tables}


def _difference(job: KeyedJob, runs: Sequence[Rows], way: str, between: timedelta) -> str:
    """Return what differs when events come in a way; empty if nothing does."""
    frames = [_frames(job, run) for run in runs or [{}]]
    end = _end(job, frames)
    if way in DIVISIONS:
        # As of one processing time, since which run an event comes in is otherwise part of some answers.
        between = timedelta(0)
    expected = _played(job, frames, _in_order, between, end)
    try:
        if way == IN_FILES:
            actual = _by_engine(job, frames, end)
        elif way in DIVISIONS:
            actual = _played(job, DIVISIONS[way](job, frames), _in_order, between, end)
        else:
            actual = _played(job, frames, WAYS[way], between, end)
        for name, rows in expected.items():
            assert_frame_equal(actual[name].select(rows.columns), rows, check_row_order=False, check_exact=True)
    except AssertionError as error:
        return str(error)
    return ""


def _frames(job: KeyedJob, run: Rows) -> dict[str, pl.DataFrame]:
    kinds = {name: pl.Schema(input_.stream.event_schema) for name, input_ in job.inputs.items()}
    rows = {name: run.get(first, []) for name, first in first_readers(job).items()}
    return {name: pl.DataFrame(list(rows[name]), schema=kind, orient="row") for name, kind in kinds.items()}


def _smallest(example: Counterexample, job: KeyedJob) -> Counterexample:
    """Leave out events, one after the other, for as long as the answers differ."""
    runs = [{name: list(rows) for name, rows in run.items()} for run in example.runs]
    places = [(run, name, row) for run, of in enumerate(runs) for name, rows in of.items() for row in range(len(rows))]
    for run, name, row in reversed(places):
        fewer = [{name: list(rows) for name, rows in of.items()} for of in runs]
        del fewer[run][name][row]
        if difference := _difference(job, fewer, example.way, example.between):
            runs, example = fewer, replace(example, runs=fewer, difference=difference)
    return example
