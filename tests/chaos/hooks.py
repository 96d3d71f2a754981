"""What is called in a process before it works, by name: faults that come at a named moment."""

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

from keyfold import runs
from keyfold.cli import run as run_command
from keyfold.journal import journal
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import carrying, commits, fail_points, file_changes
from keyfold.runs.ingests import ingest
from keyfold.storage import bucket_path, lease
from spark_jobs.jobs.registry import JOBS
from tests.entries import without_rights
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

    for module in (bucket_path, commits, carrying, file_changes):
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
    run_command.RunOptions, runs.ingest = RunOptions, ingest


def keep_records() -> None:
    """The journal keeps its records as long as real ones do: a topic is sent what they name."""
    journal.KEPT = 100


def steps_raise() -> None:
    """Both jobs have steps that fail."""

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Any) -> Any:
        raise RuntimeError("a fault of a step")

    for name in ("totals", "windows"):
        _change(name, lambda job: replace(job, step=step))


def _change(name: str, changed: Callable[[KeyedJob], KeyedJob]) -> None:
    template = JOBS[name]
    JOBS[name] = replace(template, build=partial(_built, template.build, changed))


def _built(build: Any, changed: Callable[[KeyedJob], KeyedJob], parameters: Any) -> KeyedJob:
    return changed(build(parameters))


def end_within_a_minute() -> None:
    """End the process by a signal if it waits for something."""
    signal.alarm(60)


def keep_no_one_out_but_by_modes() -> None:
    """Take root's right to read what modes forbid: tests may run as root."""
    without_rights()
