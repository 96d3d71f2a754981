"""A process that runs commands of `keyfold` on toys, each in a process of its own that faults may come to.

`python -m tests.chaos.local_keyfold` imports everything once, then forks a process for each order on its standard input; see
`launcher`. A run's process is a session of its own; what it says goes to a log.
"""

import ctypes
import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import typer
from deltalake.exceptions import DeltaError

from keyfold import RowTimes, runs
from keyfold.cli import run as run_command
from keyfold.cli.app import app
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal, known
from keyfold.journal import journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.building import with_parameters
from keyfold.keyed.job.parameters import JobParameters
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.stream import Stream
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.keyfold.keyed.toy_jobs import totals, windows
from tests.shop import CLICK

IMPORTED = (pd, pq)
"""Once: Arrow would import them in each process, which takes most of a small run's time."""

CLICKS = Stream(
    name="clicks",
    schema=CLICK,
    event_time="at",
    event_id=("user", "at"),
    max_line_bytes=1 << 20,
    max_file_bytes=8 << 20,
)


def main() -> None:
    """Fork as ordered, one line of JSON an order, one an answer."""
    play_with_toys()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            told = {"code": os.waitstatus_to_exitcode(status)}
        else:
            child = os.fork()
            if child == 0:
                _run(order)
            told = {"pid": child}
        print(json.dumps(told), flush=True)


def play_with_toys() -> None:
    """Have the commands of this process know toy streams and jobs, and make many small batches of them."""
    # One file a batch, and as many batches as files: many moments at which something can happen.
    ingest_files, options = runs.ingest, run_command.RunOptions
    runs.ingest = lambda *given, **named: ingest_files(*given, **named | {"max_bytes_per_batch": 1})
    run_command.RunOptions = lambda **given: replace(options(**given), max_bytes_per_batch=1)  # type: ignore[misc]
    # Journals that let go of their records after some batches, as real ones do after hundreds.
    journal.KEPT, known.BATCHES_BETWEEN = 2, 1
    STREAMS["clicks"] = CLICKS


def declare_toys() -> None:
    """Declare the toy jobs. After a fork: their declaration starts threads of Polars, which no fork has."""
    for name, build in (("totals", totals), ("windows", windows)):
        JOBS[name] = with_parameters(_build(build))


class _FewGroups(JobParameters):
    key_groups: int = 4


def _build(build: Any) -> Any:
    of_windows = {"idle_timeout": "2h", "row_times": RowTimes("window", of_state=pl.col("window"), after="10m")}
    changes = of_windows if build is windows else {"changes": True}

    def built(parameters: _FewGroups) -> Any:
        return build(**changes)

    return built


def note_points() -> None:
    """Write down each named point that the process comes to, in the file that KEYFOLD_POINTS names, and go on."""
    path = Path(os.environ["KEYFOLD_POINTS"])

    def note(point: str) -> None:
        with path.open("a") as file:
            file.write(f"{point}\n")

    fail_points.act = note


def maintain_all(home: Path) -> None:
    """See to every table as the nightly job does, with a clock that is eight days ahead: all that may be deleted is."""
    lakehouse = Lakehouse(home)
    batches = ingest_journal(lakehouse, "clicks").recent()
    for name, path, time in (
        ("events.clicks", lakehouse.events("clicks"), "at"),
        ("quarantine.clicks", lakehouse.quarantine("clicks"), None),
    ):
        written = [done.tables.get(name.partition(".")[0], ()) for done in batches]
        maintain(lakehouse, MaintainedTable(name, path, written, time), timedelta(days=7))
    for job in ("totals", "windows"):
        with lakehouse.job(job).exclusive(f"job {job}"):
            generation = live_generation(lakehouse, job)
            if generation is None:
                continue
            for name in generation.record.table_ids:
                written = [done.tables.get(name, ()) for done in generation.journal.recent()]
                maintain(lakehouse, MaintainedTable(name, generation.table(name), written), timedelta(days=7))


def _run(order: dict[str, Any]) -> None:
    """Work in the forked process, which ends here."""
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    silence = os.open(os.devnull, os.O_RDONLY)
    for file, number in ((silence, 0), (log, 1), (log, 2)):
        os.dup2(file, number)
    os.environ.update(order["environment"])
    code = 70  # of a fault in these lines, which is no exit code of keyfold's
    try:
        calls = _system_calls()
        if order["seconds_ahead"]:
            calls.shift_clock(ctypes.c_long(order["seconds_ahead"]))
        if fault := order["writes"]:
            calls.fail_writes(
                fault["below"].encode(), fault["failure"], ctypes.c_long(fault["number"]), int(fault["for_good"])
            )
        declare_toys()
        for hook in order["hooks"]:
            module, _, name = hook.partition(":")
            getattr(importlib.import_module(module), name)()
        tried = [type_command(command, order["home"]) for command in order["attempts"]]
        Path(order["log"]).with_suffix(".tried").write_text(json.dumps(tried))
        code = 0
        for number, command in enumerate(order["commands"], 1):
            code = type_command(command, order["home"])
            if code:
                break
            Path(order["log"]).with_suffix(".done").write_text(str(number))
        if order["writes"]:
            Path(order["log"]).with_suffix(".writes").write_text(str(calls.writes_counted()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def type_command(command: Sequence[str], home: str) -> int:
    """Type a command; its exit code."""
    if tuple(command) == ("maintain",):
        _system_calls().shift_clock(ctypes.c_long(8 * 86_400))
        try:
            maintain_all(Path(home))
        except KeyfoldError as error:  # as the nightly job does
            print(f"warning: {error}")
        except (DeltaError, OSError) as error:  # and as Dagster shows the failure of a run
            print(f"error: {error}")
            return 1
        _system_calls().shift_clock(ctypes.c_long(0))
        return 0
    try:
        app([*command, "--home", home], standalone_mode=True)
    except SystemExit as end:
        return int(end.code or 0)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _system_calls() -> Any:
    """The library that was loaded before all others (`system_calls.c`)."""
    calls: Any = ctypes.CDLL(None)
    calls.writes_counted.restype = ctypes.c_long
    return calls


if __name__ == "__main__":
    main()
