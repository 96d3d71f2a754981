"""Nexmark on Keyfold beside Flink and stock Spark: `make nexmark [QUERIES=3,11] [EVENTS="500000 2000000"] [ENGINES="keyfold flink"]`.

All engines read the same events and run by turns, each in its own process. The cost of a query is the slope between two sizes,
which excludes the cost of starting. Keyfold's figures are given for the jobs alone, and with the ingest of the streams that the
query reads, which all jobs share. Answers are compared with DuckDB's: Keyfold's row by row, others' by number of rows.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

import polars as pl

from benchmarks.nexmark.answers import Expected, answer, assert_right
from benchmarks.nexmark.engines import Cost, Engine, flink_engine, folder_bytes, spark_engine
from benchmarks.nexmark.events import KINDS, Events, write_events
from benchmarks.nexmark.flink_queries import QUERIES as FLINK_QUERIES
from benchmarks.nexmark.flink_queries import insert, settings, tables
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.spark_queries import SPARK_QUERIES
from keyfold import Lakehouse
from keyfold.times import micros

_SHARE = {"person": 1 / 50, "auction": 3 / 50, "bid": 46 / 50}
_WHOLE = frozenset({3, 20, 23})
"""Queries of which stock Spark writes all rows, each once."""
_ENGINES = ("keyfold", "flink", "spark")
_HEADINGS = (
    *("q", "Keyfold k events/s", "Keyfold k events a processor s: job", "with ingest", "Flink", "Spark"),
    *("job / Flink", "with ingest / Flink", "peak GiB: Keyfold, Flink, Spark", "state MiB: Keyfold, Flink, Spark"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    add = parser.add_argument
    add("--queries", help="numbers separated by commas [default: all]")
    add("--events", nargs=2, type=int, default=[500_000, 2_000_000], help="numbers of events of the two sets")
    add("--engines", nargs="*", default=list(_ENGINES), choices=_ENGINES)
    add("--disorder", action="store_true", help="one event in ten arrives up to two seconds late")
    arguments = parser.parse_args()
    numbers = [int(text) for text in arguments.queries.split(",")] if arguments.queries else list(QUERIES)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        race = Race(Path(folder), arguments)
        try:
            for number in numbers:
                race.run(QUERIES[number])
        finally:
            # Also if it was interrupted.
            print(race.page(), flush=True)
            race.end()


class Race:
    """The engines, the files of both sizes, and the cost of each run."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder, self._arguments = folder, arguments
        self._engines: dict[str, Engine] = {
            name: flink_engine(folder) if name == "flink" else spark_engine(folder) for name in arguments.engines
        }
        self._costs: dict[tuple[int | str, str, int], Cost] = {}
        self._wrong: list[str] = []
        self._expected = {count: self._prepare(count) for count in arguments.events}

    def run(self, query: Query) -> None:
        """Run a query on all engines by turns, the small set first. A new process runs the small set once before, to warm up."""
        queries = {"keyfold": QUERIES, "flink": FLINK_QUERIES, "spark": SPARK_QUERIES}
        for count in self._arguments.events:
            for name, engine in self._engines.items():
                if query.number not in queries[name]:
                    continue
                measure = getattr(self, f"_{name}")
                if not engine.is_warm:
                    cost = measure(query, self._arguments.events[0])
                    _say(f"query {query.number}, {name}, to warm up", cost)
                    engine.is_warm = not cost.error
                cost = self._costs[query.number, name, count] = measure(query, count)
                _say(f"query {query.number}, {name}, {count:,} events", cost)

    def end(self) -> None:
        """End all processes."""
        for engine in self._engines.values():
            engine.end()

    def page(self) -> str:
        """Return the figures as a Markdown table, and the errors."""
        revision = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(revision, capture_output=True, text=True, check=False).stdout.strip()
        arguments, (small, large) = self._arguments, self._arguments.events
        lines = [
            f"Commit {commit}, {small:,} and {large:,} events, {'out of' if arguments.disorder else 'in'} order, {os.cpu_count()} cores.",
            *("", _row(_HEADINGS), f"|{'---|' * len(_HEADINGS)}"),
        ]
        ratios: list[tuple[float, float]] = []
        for number in dict.fromkeys(key[0] for key in self._costs if isinstance(key[0], int)):
            lines.append(self._line(QUERIES[number], ratios))
        for scope, place in (("its jobs alone", 0), ("jobs with ingest", 1)) if ratios else ():
            factors = [pair[place] for pair in ratios]
            summary = f"median {statistics.median(factors):.1f}, least {min(factors):.1f}"
            lines += ["", f"Keyfold's events a processor second over Flink's, {scope}: {summary}."]
        failed = [
            f"query {number}, {name}, {count:,} events: {cost.error}"
            for (number, name, count), cost in self._costs.items()
            if cost.error
        ]
        return "\n".join([*lines, "", *(self._wrong or ["All answers are DuckDB's."]), *failed])

    def _line(self, query: Query, ratios: list[tuple[float, float]]) -> str:
        number, (small, large) = query.number, self._arguments.events
        events = (large - small) * sum(_SHARE[kind] for kind in query.reads)
        job, flink, spark = (self._slope(number, name) for name in _ENGINES)
        whole = None if job is None else job + sum(self._slope(kind, "ingest") or 0 for kind in query.reads)
        if job and whole and flink:
            ratios.append((flink / job, flink / whole))
        rates = [_per(events, slope) for slope in (self._slope(number, "keyfold", "seconds"), job, whole, flink, spark)]
        over = [f"{flink / rate:.1f}" if flink and rate else "" for rate in (job, whole)]
        costs = [self._costs.get((number, name, large)) for name in _ENGINES]
        peaks = [f"{cost.peak_bytes / 2**30:.1f}" if cost else "–" for cost in costs]
        states = [f"{cost.state_bytes / 2**20:.0f}" if cost else "–" for cost in costs]
        return _row((str(number), *rates, *over, ", ".join(peaks), ", ".join(states)))

    def _slope(self, query: int | str, engine: str, of: str = "processor") -> float | None:
        small, large = (self._costs.get((query, engine, count)) for count in self._arguments.events)
        if small is None or large is None or small.error or large.error:
            return None
        difference = getattr(large, of) - getattr(small, of)
        # The sets are too small to measure a slope.
        return difference if difference > 0 else None

    def _prepare(self, count: int) -> Expected:
        events, folder = Events(count, disorder=self._arguments.disorder), self._folder / f"{count}"
        files, home = write_events(folder / "files", events), folder / "home"
        home.mkdir()
        # Flink reads files in any order: write one file for each of its two readers, in order of arrival.
        for kind in KINDS:
            (folder / "halves" / kind).mkdir(parents=True)
            for number, path in enumerate(sorted((files / kind).iterdir())):
                with (folder / "halves" / kind / f"{number % 2}.ndjson").open("ab") as half:
                    half.write(path.read_bytes())
        if "keyfold" in self._engines:
            for kind in KINDS * (1 if self._costs else 2):
                cost = self._engines["keyfold"].ask(do="ingest", home=str(home), files=str(files), kinds=[kind])
                self._costs[kind, "ingest", count] = cost
                _say(f"ingest of {kind}, {count:,} events", cost)
        return Expected(files, Lakehouse(home))

    def _keyfold(self, query: Query, count: int) -> Cost:
        end, home = micros(Events(count).time(count) + timedelta(hours=1)), self._folder / f"{count}" / "home"
        cost = self._engines["keyfold"].ask(do="keyfold", home=str(home), number=query.number, close=end)
        if not cost.error:
            try:
                assert_right(query, answer(Lakehouse(home), query), self._expected[count].of(query))
            except AssertionError as error:
                self._note(query, "keyfold", count, f"wrong: {str(error).splitlines()[0]}")
        return cost

    def _flink(self, query: Query, count: int) -> Cost:
        sink, checkpoints = self._folder / "flink-answer", self._folder / "flink-checkpoints"
        for folder in (sink, checkpoints):
            shutil.rmtree(folder, ignore_errors=True)
        cost = self._engines["flink"].ask(
            lambda: max((folder_bytes(checkpoint) for checkpoint in checkpoints.glob("*")), default=0),
            settings=settings(str(checkpoints)),
            tables=tables(str(self._folder / f"{count}" / "halves")),
            insert=insert(query.number, str(sink)),
        )
        if not cost.error:
            self._compare(query, "flink", count, _rows_of_log(sink))
        return cost

    def _spark(self, query: Query, count: int) -> Cost:
        files, folder = self._folder / f"{count}" / "files", self._folder / "spark-answer"
        command = {"files": str(files), "folder": str(folder), "number": query.number, "files_a_batch": 2}
        cost = self._engines["spark"].ask(do="spark", **command)
        if not cost.error and query.number in _WHOLE:
            self._compare(
                query, "spark", count, pl.scan_parquet(folder / "table/*.parquet").select(pl.len()).collect().item()
            )
        return cost

    def _compare(self, query: Query, engine: str, count: int, rows: int) -> None:
        if rows != (expected := self._expected[count].of(query).height):
            self._note(query, engine, count, f"{rows:,} rows instead of {expected:,}")

    def _note(self, query: Query, engine: str, count: int, fault: str) -> None:
        self._wrong.append(f"query {query.number}, {engine}, {count:,} events: {fault}")


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows_of_log(folder: Path) -> int:
    """Return the number of rows in Flink's answer; in a log of changes, added rows less retracted rows."""
    rows = 0
    for path in folder.rglob("part-*"):
        with path.open("rb") as lines:
            rows += sum(-1 if line.endswith(b'"op":"d"}\n') else 1 for line in lines)
    return rows


def _per(events: float, seconds: float | None) -> str:
    return f"{events / seconds / 1000:,.0f}" if seconds and seconds > 0 else "–"


def _say(label: str, cost: Cost) -> None:
    state = f", state {cost.state_bytes / 2**20:.0f} MiB" if cost.state_bytes else ""
    error = f", failed: {cost.error}" if cost.error else ""
    peak = f"peak {cost.peak_bytes / 2**30:.1f} GiB"
    print(f"{label}: {cost.seconds:.1f} s, {cost.processor:.1f} processor s, {peak}{state}{error}", flush=True)


if __name__ == "__main__":
    main()
