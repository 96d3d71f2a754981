"""`python -m benchmarks.scale.after_a_kill [--keys 10000000]`: kill a run with much state, and measure its recovery.

The time is from the start of the second process, without a running Spark, to the end of its first batch. Then the same process
compares successive batches, and a batch with itself, with the function of `keyfold state diff`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.scale.balances import BOOKING, STREAM, balances
from benchmarks.scale.cell import Cell, book, seed
from benchmarks.usage import family, processor_seconds
from keyfold import Lakehouse, build_session, read_state
from keyfold.journal.records import Progress
from keyfold.keyed.generation.batch_records import Counts
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.lakehouse import create_table
from keyfold.session import SparkSettings
from keyfold.state.differences.diff import diff_states

_KILLED_AFTER = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.after_a_kill", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--key-groups", type=int, default=512)
    parser.add_argument("--events", type=int, default=1_000, help="a batch")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--largest", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    cell = replace(Cell(), keys=given.keys, key_groups=given.key_groups, events=given.events, batches=2 * _KILLED_AFTER)
    if given.home and given.largest is None:
        _run_and_die(cell, given.home)
    elif given.home:
        _go_on(cell, given.home, given.largest)
    else:
        with tempfile.TemporaryDirectory(prefix="keyfold-scale-") as folder:
            _both(Path(folder), sys.argv[1:])


def _both(folder: Path, arguments: list[str]) -> None:
    own = [sys.executable, "-m", "benchmarks.scale.after_a_kill", *arguments, "--home", str(folder / "home")]
    died = subprocess.run(own, check=False)
    if died.returncode != -signal.SIGKILL:
        raise SystemExit("the first run was not killed")
    began = time.time()
    told = subprocess.run(
        [*own, "--largest", (folder / "largest").read_text()], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(told.stdout.splitlines()[-1])
    print(f"killed and started again: {found.pop('first_batch') - began:.1f} s to the end of the first batch")
    for name, (wall, processor, summary) in found.items():
        print(f"{name}: {wall:.2f} s, {processor:.2f} processor s ({summary})")


def _run_and_die(cell: Cell, home: Path) -> None:
    spark, lakehouse = build_session(_settings(cell)), Lakehouse(home)
    create_table(lakehouse.events(STREAM), BOOKING)
    seed(spark, lakehouse, cell, home.parent)
    largest = book(lakehouse, cell)
    (home.parent / "largest").write_text(str(largest))
    done: list[Progress] = []

    def on_batch(progress: Progress, counts: Counts) -> None:
        done.append(progress)
        if len(done) == _KILLED_AFTER:
            # Kill Java and the workers first. If this process ended first, they would end in an orderly way.
            for process in family(os.getpid()) - {os.getpid()}:
                os.kill(process, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    run_job(spark, lakehouse, balances(cell.key_groups), options=RunOptions(largest, on_batch))


def _go_on(cell: Cell, home: Path, largest: int) -> None:
    spark, lakehouse, job = build_session(_settings(cell)), Lakehouse(home), balances(cell.key_groups)
    ended: list[float] = []
    run_job(spark, lakehouse, job, options=RunOptions(largest, lambda progress, counts: ended.append(time.time())))
    generation = live_generation(lakehouse, job.name)
    done = generation.journal.last_done() if generation else None
    assert done is not None  # noqa: S101 - the run has just worked on batches
    last = done.batch
    found: dict[str, object] = {"first_batch": ended[0]}
    pairs = {"diff with the batch before": (last - 1, last), "diff with itself": (last, last)}
    # The first run of each warms up Java, and is measured again.
    for name, batches in [*pairs.items()] * 2:
        used, began = processor_seconds(os.getpid()), time.monotonic()
        older, newer = (read_state(spark, lakehouse, job, batch=batch) for batch in batches)
        summary = diff_states(older, newer).summary()
        counted = f"{summary.changed:,} changed, {summary.unchanged:,} alike"
        found[name] = time.monotonic() - began, processor_seconds(os.getpid()) - used, counted
    spark.stop()
    print(json.dumps(found))


def _settings(cell: Cell) -> SparkSettings:
    conf = SparkSettings.from_environment().conf | {"spark.sql.shuffle.partitions": str(cell.partitions)}
    return SparkSettings(conf=conf)


if __name__ == "__main__":
    main()
