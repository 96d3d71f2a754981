"""`python -m benchmarks.scale SET --folder DIR`: measure a job's batches for many numbers of keys, key groups and events.

Each cell runs in its own process and adds a line to DIR/cells.jsonl. Cells that have a line are skipped, so that an interrupted
run continues.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.scale.cell import Cell, run_here

_TEN_MILLION = replace(Cell(), keys=10_000_000, key_groups=512)
SETS: dict[str, tuple[Cell, ...]] = {
    "quick": (replace(Cell(), keys=10_000, batches=2),),
    "grid": (
        replace(_TEN_MILLION, events=1_000),
        _TEN_MILLION,
        replace(_TEN_MILLION, key_groups=32_768, events=1_000),
        replace(Cell(), events=1_000_000),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("set", nargs="?", choices=list(SETS), default="quick", help="which cells")
    parser.add_argument("--folder", type=Path, default=Path("scale"), help="where results are kept")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        print(json.dumps(run_here(json.loads(arguments.cell))))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    results = arguments.folder / "cells.jsonl"
    done = [_cell(json.loads(line)) for line in results.read_text().splitlines()] if results.exists() else []
    for cell in SETS[arguments.set]:
        if cell in done:
            continue
        command = [sys.executable, "-m", "benchmarks.scale", "--cell", json.dumps(asdict(cell))]
        ran = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
        if ran.returncode:
            print(f"{cell}: failed", file=sys.stderr)
            continue
        line = ran.stdout.splitlines()[-1]
        with results.open("a") as file:
            file.write(line + "\n")
        print(_line(json.loads(line)), flush=True)


def _cell(row: dict[str, object]) -> Cell:
    return Cell(**{name: row[name] for name in asdict(Cell())})  # type: ignore[arg-type]


def _line(row: dict[str, float]) -> str:
    peak = row["peak"]["all"] / 2**30  # type: ignore[index]
    return (
        f"{row['keys']:>11,} keys {row['key_groups']:>6,} groups {row['events']:>9,} events: "
        f"{row['wall']:.2f} s, {row['processor']:.2f} processor s, state {row['state_bytes'] / 1e6:,.1f} MB in "
        f"{row['state_files']:.0f} files, peak {peak:.1f} GiB, load {row['load']:.0f}"
    )


if __name__ == "__main__":
    main()
