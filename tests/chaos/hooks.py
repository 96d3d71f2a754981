"""What is called in a process before it works, by name: faults that come at a named moment, and code that was changed."""

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.cli import ingest as ingest_command
from keyfold.cli import run as run_command
from keyfold.ingestion import ingest
from keyfold.journal import journal
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions
from keyfold.lakehouse import carrying, commits, fail_points, row_erasure
from keyfold.storage import bucket, lease
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.waiting import lives, wait_until


def lose_a_landing_file() -> None:
    """Delete the file that LOSE names, once a run has planned to read it."""

    def lose(point: str) -> None:
        if point == "plan: after":
            Path(os.environ["LOSE"]).unlink(missing_ok=True)

    fail_points.act = lose


def short_leases() -> None:
    """A lease lasts two seconds, so that a test need not wait for long."""
    lease.LASTS = timedelta(seconds=2)


def freeze_behind_look() -> None:
    """Stop between the look at a lease whose number FREEZE says and the write after it."""
    wanted, looks = int(os.environ["FREEZE"]), itertools.count()

    def look() -> None:
        lease.check_held()
        if next(looks) == wanted:
            os.kill(os.getpid(), signal.SIGSTOP)

    for module in (bucket, commits, carrying, row_erasure):
        setattr(module, "check_held", look)  # noqa: B010 - each has it by name


def thaw_amid_planning() -> None:
    """Have the process of THAW go on to its end once one of several plans is written."""

    def act(point: str) -> None:
        if point == "plan: one of several":
            os.kill(int(os.environ["THAW"]), signal.SIGCONT)
            wait_until(lambda: not lives(int(os.environ["THAW"])))

    fail_points.act = act


def whole_runs() -> None:
    """A run has one batch, whatever came."""
    run_command.RunOptions, ingest_command.ingest_files = RunOptions, ingest


def keep_records() -> None:
    """The journal keeps its records as long as real ones do: a topic is sent what they name."""
    journal.KEPT = 100


def steps_raise() -> None:
    """Both jobs have steps that fail."""

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Any) -> Any:
        raise RuntimeError("a fault of a step")

    for name in ("totals", "windows"):
        _change(name, lambda job: replace(job, step=step))


# code that was changed since the last run


def another_step() -> None:
    """The step of `windows` does the same by other code."""

    def changed(job: KeyedJob) -> KeyedJob:
        return replace(job, step=lambda state, events, clock: job.function(state, events.sort("at"), clock))

    _change("windows", changed)


def another_delay() -> None:
    """`windows` waits longer for events that come late."""
    _change("windows", lambda job: replace(job, inputs=replace(job.only_input, delay="9m")))


def another_column() -> None:
    """The table of `windows` has a column more."""

    def changed(job: KeyedJob) -> KeyedJob:
        def step(state: pl.DataFrame, events: pl.DataFrame, clock: Any) -> Any:
            made = job.function(state, events, clock)
            return replace(made, output=made.output.with_columns(half=pl.col("clicks") / 2))

        wider = replace(job.main, schema=job.main.schema.append(pa.field("half", pa.float64())))
        return replace(job, step=step, tables=(wider, *job.own_tables[1:]))

    _change("windows", changed)


def another_table() -> None:
    """`totals` writes no changes any more but under another name as well."""

    def changed(job: KeyedJob) -> KeyedJob:
        def step(state: pl.DataFrame, events: pl.DataFrame, clock: Any) -> Any:
            made = job.function(state, events, clock)
            return replace(made, side={**made.side, "more": made.side["changes"]})

        more = replace(job.own_tables[1], name="more")
        return replace(job, step=step, tables=(*job.own_tables, more))

    _change("totals", changed)


def another_event_id() -> None:
    """An event of the stream is told by more columns."""
    STREAMS["clicks"] = replace(STREAMS["clicks"], event_id=("user", "at", "clicks"))


def a_column_of_events_more() -> None:
    """Events have a column that may be NULL."""
    stream = STREAMS["clicks"]
    STREAMS["clicks"] = replace(stream, schema=stream.schema.append(pa.field("page", pa.string())))


def _change(name: str, changed: Callable[[KeyedJob], KeyedJob]) -> None:
    template = JOBS[name]
    JOBS[name] = replace(template, build=partial(_built, template.build, changed))


def _built(build: Any, changed: Callable[[KeyedJob], KeyedJob], parameters: Any) -> KeyedJob:
    return changed(build(parameters))
