"""Seed a job: make a new generation whose initial state comes from a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Misconfigured, NotFound
from keyfold.journal.clock import check_advance
from keyfold.keyed.conservation import events_in_table
from keyfold.keyed.execution.filling import fill
from keyfold.keyed.execution.generation_sources import TableRows
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import watermark as watermark_of
from keyfold.keyed.plans.input_tables import input_tables, positions_explained
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.positions import Position, check_position, position_at
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.state.making.mapping import Checked, StateMapping, as_state, check_rows, private_in_state
from keyfold.state.making.sources import open_source, reading
from keyfold.storage.place import Place
from keyfold.times import BEGINNING

ReadFrom = int | Literal["latest", "start"]
"""The version of the event table that the state includes."""

_SAMPLE = 5


@dataclass(frozen=True)
class SeedSource:
    """The state to seed a job with.

    Attributes:
        source: name of a table, or path of a Delta table or of Parquet, CSV or JSON lines (also of a key each).
        mapping: SQL expressions over the source's columns, by column of state.
        watermark: the watermark of the state; None takes the live generation's, or none.
        read_from: the version after which events are read; None takes the live generation's position, if there is one.

    Raises:
        KeyfoldError: `watermark` is later than `journal.clock.LATEST_ADVANCE`.
    """

    source: str
    mapping: Mapping[str, str] = field(default_factory=dict)
    watermark: datetime | None = None
    read_from: ReadFrom | None = None

    def __post_init__(self) -> None:
        check_advance("watermark", self.watermark)


@dataclass(frozen=True)
class Seeded:
    """The result of seeding, or what it would be.

    Attributes:
        job: name of the job.
        generation: the generation that is live now; None without `yes`.
        checked: counts of the rows of state.
        versions: the version after which each table is read; a table that is not named is read from its beginning.
        watermark: the watermark of the state.
        new_rows: rows of the event table that the next run reads; with `explode`, each copy counts.
        sample: the first rows of state, with private values masked.
    """

    job: str
    generation: str | None
    checked: Checked
    versions: Mapping[str, int]
    watermark: datetime
    new_rows: int
    sample: pl.DataFrame


def seed_job(lakehouse: Lakehouse, job: KeyedJob, wanted: SeedSource, *, yes: bool = False, runners: Runners) -> Seeded:
    """Seed a new generation of a job from a table, and make it live in one step. The old generation stays, until `prune`.

    Without `yes`, the rows are only checked and counted. The tables of the new generation are empty at first: they have results of later runs only.

    Raises:
        KeyfoldError: the rows do not fit the job's state (names row and column), it is unknown which events the state
            includes, or a run has locked the job. Nothing is changed.
    """
    with reading(wanted.source):
        source = open_source(lakehouse, wanted.source, job.key)
        mapping = StateMapping(wanted.mapping)
        checked, rows = check_rows(job, source, mapping), as_state(job, source, mapping)
        sample = masked(rows.head(_SAMPLE).collect(), private_in_state(job))
    live = live_generation(lakehouse, job.name)
    positions, watermark = _positions(lakehouse, job, wanted, live), _watermark(wanted, live)
    versions = {name: position.version for name, position in positions.items()}
    # The job never reads events up to the state's version: the conservation check must not count them.
    skipped = _events_at(lakehouse, job, versions)
    new_rows = _events_at(lakehouse, job, _latest(lakehouse, job)) - skipped
    if not yes:
        return Seeded(job.name, None, checked, versions, watermark, new_rows, sample)
    with lakehouse.job(job.name).exclusive(f"job {job.name}"):
        table = TableRows(wanted.source, rows, checked.events, skipped, positions, watermark)
        generation = fill(runners, lakehouse, job, table).generation
        go_live(lakehouse, generation)
    return Seeded(job.name, generation.name, checked, versions, watermark, new_rows, sample)


def _positions(lakehouse: Lakehouse, job: KeyedJob, wanted: SeedSource, live: Generation | None) -> dict[str, Position]:
    """Return the position after which each table is read; without tables that are read from their beginning."""
    tables = input_tables(lakehouse, job)
    for stream in job.streams:
        if not is_table(lakehouse.events(stream.name)):
            raise NotFound(
                f"job {job.name} reads events.{stream.name}, which is not in {lakehouse.home} yet; run `keyfold ingest "
                f"{stream.name}` first"
            )
    last = live.journal.last_done() if live else None
    read_from = wanted.read_from
    if read_from is None:
        if last is None:
            raise NotFound(
                f"job {job.name} has never run, so it is unknown which events its new state includes: give --from-version with "
                f"a version of {' and '.join(tables)}, `latest` if it includes all events, or `start` if it includes none"
            )
        positions = {}
        for name in tables.keys() & last.positions.keys():
            with positions_explained(
                f"job {job.name}", name, "say with --from-version which events its state includes"
            ):
                positions[name] = check_position(tables[name], last.positions[name])
        return positions
    if read_from == "start":
        return {}
    if read_from != "latest" and len(tables) > 1:
        raise Misconfigured(
            f"job {job.name} reads {' and '.join(tables)}, and a version is one table's: give `latest` or `start`"
        )
    return {name: _position_at(name, table, read_from) for name, table in tables.items()}


def _position_at(name: str, table: Place, read_from: int | str) -> Position:
    newest = DeltaTable(str(table)).version()
    version = newest if isinstance(read_from, str) else read_from
    if not 0 <= version <= newest:
        raise NotFound(f"{name} has versions 0 to {newest}, and none {version}")
    return position_at(table, version)


def _watermark(wanted: SeedSource, live: Generation | None) -> datetime:
    if wanted.watermark is not None:
        return wanted.watermark
    carried = watermark_of(live) if live and wanted.read_from is None else None
    return carried or BEGINNING


def _latest(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, int]:
    return {name: DeltaTable(str(table)).version() for name, table in input_tables(lakehouse, job).items()}


def _events_at(lakehouse: Lakehouse, job: KeyedJob, versions: Mapping[str, int]) -> int:
    """Count the events that tables have for a job at these versions."""
    tables = input_tables(lakehouse, job)
    return sum(events_in_table(tables[name], name, job, version) for name, version in versions.items())
