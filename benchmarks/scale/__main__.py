"""`python -m benchmarks.scale SET --folder DIR`: what batches of a job take, against keys, key groups and events.

Each cell runs in a process of its own and adds a line to DIR/cells.jsonl; one that has its line is passed over, so that
what was broken off goes on.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.scale.cell import Cell, run_here
from benchmarks.scale.grid import SETS


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
        print(_told(json.loads(line)), flush=True)


def _cell(told: dict[str, object]) -> Cell:
    return Cell(**{name: told[name] for name in asdict(Cell())})  # type: ignore[arg-type]


def _told(told: dict[str, float]) -> str:
    peak = told["peak"]["all"] / 2**30  # type: ignore[index]
    return (
        f"{told['keys']:>11,} keys {told['key_groups']:>6,} groups {told['events']:>9,} events "
        f"({told['groups_touched']:g} of groups, {told['rows_a_key']} rows a key, {told['executors']} executors): "
        f"{told['wall']:.2f} s, {told['processor']:.2f} processor s, checkpoint {told['checkpoint_bytes'] / 1e6:,.1f} MB in "
        f"{told['checkpoint_files']:.0f} files, peak {peak:.1f} GiB, load {told['load']:.0f}"
    )


if __name__ == "__main__":
    main()
