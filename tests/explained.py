"""Random histories of jobs, and what plain Python knows of them: every event that came, by key."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import polars as pl

import keyfold
from keyfold import INGESTED_AT, KeyedJob, Stream
from keyfold.keyed.calling.harness import in_one_frame
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions
from keyfold.maintenance.compaction import compact
from keyfold.runs.explaining.explanation import Explanation
from keyfold.testing.made_events import first_readers, made_events
from tests.lake import Lake
from tests.shop import MINUTE, START

Frames = Mapping[str, pl.DataFrame]


class History:
    """Runs of a job over random events, which land or are put into the table as another program does.

    Attributes:
        came: the events of each run that was made, by input, in the columns of the event table.
    """

    def __init__(self, lake: Lake, job: KeyedJob, chance: random.Random, sample: Frames | None = None) -> None:
        self.lake, self.job, self.chance = lake, job, chance
        self.came: list[Frames] = []
        # Ingest leaves out events with an id that has come before.
        can_land = not any(stream.event_id for stream in job.streams)
        ways = ["is put", "is put without its arrival", *(["lands"] if can_land else [])]
        self._sample, self._way = sample or {}, chance.choice(ways)

    def go_on(self, runs: int) -> None:
        """Have events come and be read, in so many runs, with what may happen between them."""
        for _ in range(runs):
            self._come()
            options = RunOptions(max_bytes_per_batch=self.chance.choice([1, 1, 1 << 20]))
            self.lake.run(self.job, *self._mode(), options=options)
            # Without arrivals, maintenance leaves nothing by which the run of an event is known.
            if self._way != "is put without its arrival" and self.chance.random() < 0.3:
                for input_ in self.job.inputs.values():
                    compact(self.lake.lakehouse.events(input_.stream.name), input_.stored_time)

    def _mode(self) -> list[Incremental]:
        came = [rows[self.job.inputs[name].stored_time] for run in self.came for name, rows in run.items()]
        times = [time for column in came for time in column.to_list()]
        if not times or self.chance.random() < 0.7:
            return []
        return [Incremental(advance_to=max(times) + self.chance.choice([1, 30, 600]) * timedelta(minutes=1))]

    def _come(self) -> None:
        rows = made_events(self.job, self._sample, self.chance)
        kinds = {name: pl.Schema(self.job.inputs[name].stream.event_schema) for name in rows}
        frames = {name: pl.DataFrame(rows[name], schema=kinds[name], orient="row") for name in rows}
        for name, frame in frames.items():
            stream = self.job.inputs[name].stream
            assert isinstance(stream, Stream)
            plain = frame.drop(INGESTED_AT, strict=False)
            if self._way == "lands":
                self.lake.land(stream, plain)
                continue
            arrived = START + len(self.came) * MINUTE
            arrival = {} if self._way == "is put without its arrival" else {INGESTED_AT: pl.lit(arrived)}
            for part in (plain[::2], plain[1::2]):
                self.lake.put(part.with_columns(**arrival), stream.name)
        self.came.append({name: frames[first] for name, first in first_readers(self.job).items()})

    def all_keys(self) -> list[dict[str, Any]]:
        """The keys that came."""
        frames = [in_one_frame(self.job, frames).select(self.job.key) for frames in self.came]
        return pl.concat(frames).unique(maintain_order=True).to_dicts() if frames else []

    def events_of(self, key: Mapping[str, Any]) -> Counter[tuple[str, Any]]:
        """The input and time of each event of a key, by all that came."""
        is_key = pl.all_horizontal(pl.col(name) == value for name, value in key.items())
        counted: Counter[tuple[str, Any]] = Counter()
        for frames in self.came:
            for name, rows in frames.items():
                of_input = in_one_frame(self.job, {name: rows}).filter(is_key)
                counted.update((name, time) for time in of_input[self.job.event_time])
        return counted

    def check(self, keys: Iterable[Mapping[str, Any]] | None = None) -> int:
        """Check that the explanation of each key gives what is stored, and has all of its events; returns the number of rows."""
        late, rows = 0, 0
        for key in self.all_keys() if keys is None else keys:
            why = self.explained(key)
            assert why.is_equal, f"{key}: {why}"
            events = [*why.events, *why.waiting]
            assert Counter((event.input, event.time) for event in events) == self.events_of(key)
            late += sum(event.is_late for event in events)
            rows += len(why.rows)
            for number in range(1, len(why.rows) + 1):
                one = self.explained(key, row=number)
                assert one.is_equal, f"{key}: {one}"
                assert one.rows == why.rows[number - 1 : number]
        stored = keyfold.read_table(self.lake.lakehouse, self.job.late_table)
        # Combined late rows stand for several events each.
        if keys is None and all(input_.combine is None for input_ in self.job.inputs.values()):
            assert late == stored.collect().height
        return rows

    def explained(self, key: Mapping[str, Any], table: str = "", **options: Any) -> Explanation:
        """The explanation of a key."""
        return keyfold.explain(self.lake.lakehouse, table or self.job.name, dict(key), jobs=[self.job], **options)
