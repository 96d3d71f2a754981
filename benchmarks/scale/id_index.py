"""`python -m benchmarks.scale.id_index`: measure what the index of event ids costs a run, as it grows.

Each run has a million generated ids of a later minute. As in ingest, workers look them up and write them as a segment, and
the driver compares them with each other, drops and merges segments. At each size in `--at`, single look-ups are timed: of ids
of the newest minute, and of ids of all times (as if everything was delivered again). One process, no Spark.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from keyfold.ingestion.duplicates import Ids, copies_within
from keyfold.ingestion.segments import (
    Segment,
    copies_of_history,
    drop_before,
    merge_segments,
    sweep_segments,
    write_segment,
)
from keyfold.times import EPOCH

_RUN = 1_000_000
_MINUTE = 60_000_000
_WINDOW = 3_600_000_000
_LOOKED_UP = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.id_index", description=__doc__)
    parser.add_argument("--at", type=int, nargs="*", default=[10_000_000, 30_000_000, 100_000_000], help="ids")
    parser.add_argument("--kept", type=int, help="minutes of which ids are kept, as of a stream with a max_age")
    arguments = parser.parse_args()
    chance = np.random.default_rng(1)
    live: tuple[Segment, ...] = ()
    workers: list[float] = []
    driver: list[float] = []
    with tempfile.TemporaryDirectory(prefix="keyfold-ids-") as made:
        folder = Path(made)
        for run in range(max(arguments.at) // _RUN):
            ids = _ids(chance, _RUN, run * _MINUTE, (run + 1) * _MINUTE)
            began = time.process_time()
            if copies_of_history(folder, live, ids, _WINDOW).any():
                raise SystemExit("ids of 128 random bits were found twice")
            ids = ids.take(ids.sorted_order())
            new = write_segment(folder, ids)
            workers.append(time.process_time() - began)
            began = time.process_time()
            copies_within(ids, np.arange(_RUN), _WINDOW)
            since = arguments.kept and EPOCH + timedelta(minutes=run - arguments.kept)
            live = merge_segments(folder, [*drop_before(folder, live, since), new])
            driver.append(time.process_time() - began)
            sweep_segments(folder, {one.name for one in live})
            if (there := (run + 1) * _RUN) in arguments.at:
                now = (run + 1) * _MINUTE
                newest = _ids(chance, _LOOKED_UP, now - _MINUTE, now)
                scattered = _ids(chance, _LOOKED_UP, 0, now)
                size = sum(file.stat().st_size for file in folder.iterdir())
                print(
                    f"{there:,} ids: {len(live)} segments, {size / 2**20:,.0f} MiB; a run of {_RUN:,} new ids takes "
                    f"workers {np.mean(workers):.2f} processor s, the driver {np.mean(driver):.2f} (worst {max(driver):.2f}); "
                    f"to look up {_LOOKED_UP:,} of the newest "
                    f"minute {_seconds(copies_of_history, folder, live, newest, _WINDOW):.3f} s, of all of the time "
                    f"{_seconds(copies_of_history, folder, live, scattered, _WINDOW):.3f} s",
                    flush=True,
                )
                workers.clear()
                driver.clear()


def _ids(chance: np.random.Generator, count: int, since: int, until: int) -> Ids:
    first, second = chance.integers(0, 2**64, (2, count), dtype=np.uint64)
    return Ids(first, second, chance.integers(since, until, count))


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """Processor seconds of the second of two calls; the first one loads the pages."""
    function(*arguments)
    before = time.process_time()
    function(*arguments)
    return time.process_time() - before


if __name__ == "__main__":
    main()
