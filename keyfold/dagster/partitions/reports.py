"""Find what is to be reported to Dagster of the partitions of a job's main table: which are complete, and which have changed since.

It is derived from the journal, the tables and Dagster's own records, and not from the run that reports it. So what a run of the
command line, a continuous run or one that was killed did not report, the next one does; and nothing is reported twice.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import dagster as dg

from keyfold.dagster.assets.metadata import BATCH, GENERATION
from keyfold.dagster.partitions.completeness import rows_written
from keyfold.dagster.partitions.declared import Partitions, Period
from keyfold.dagster.partitions.tables import QUARTER, Counted, JobTables, in_periods
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.runs.reports_to_dagster import written_by_job
from keyfold.times import from_iso, to_iso

REPORTED = "keyfold/partitions"
"""Metadata key: up to where partitions are reported (`_Reported`)."""

ROWS, ROWS_BEFORE = "dagster/partition_row_count", "rows_before"
"""Metadata keys of a partition: its rows, and its rows when it was reported before."""

LATE = "late"
"""Metadata key of a partition: the late events with a time in it."""

STATUS = "status"
"""Metadata key of a partition: `complete`, `changed`, or `other generation`."""

_PAGE = 500
_MOST_NAMED = 31


class PartitionReports(NamedTuple):
    """What is to be reported.

    Attributes:
        events: of partitions, in the order in which they are to be reported.
        metadata: of the report of the run itself, which comes after them.
    """

    events: Sequence[dg.AssetMaterialization | dg.AssetObservation] = ()
    metadata: Mapping[str, dg.MetadataValue] = {}


@dataclass(frozen=True)
class _Reported:
    """Up to where partitions are reported.

    Attributes:
        by: what the partitions are of.
        generation, batch: the job's generation, and its newest batch then.
        since: the earliest time of an event or row.
        until: all rows before this time were written, and the partitions that end by then are reported.
    """

    by: str
    generation: str
    batch: int
    since: datetime
    until: datetime

    @property
    def metadata(self) -> dict[str, dg.MetadataValue]:
        times = {"since": to_iso(self.since), "until": to_iso(self.until)}
        return {REPORTED: dg.MetadataValue.text(json.dumps(asdict(self) | times))}

    @classmethod
    def read(cls, text: str) -> "_Reported":
        fields = json.loads(text)
        return cls(**fields | {name: from_iso(fields[name]) for name in ("since", "until")})


def partition_reports(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    lakehouse: Lakehouse,
    job: KeyedJob,
    partitions: Partitions,
    *,
    asked: tuple[datetime, datetime] | None = None,
    now: datetime | None = None,
) -> PartitionReports:
    """Return what is to be reported of a job's partitions, given what Dagster's records say; nothing before the first batch.

    A partition that the watermark has passed is materialized once, whether it has rows or not, and again when a batch writes rows
    of it, or another generation is live. Late events, which the job's lateness leaves out, make an observation of it.

    Args:
        instance: has the records of the asset.
        asset: the asset of the main table.
        lakehouse: has the tables.
        job: the job, with the parameters of its live generation.
        partitions: the partitions.
        asked: a span whose partitions are reported, if they are complete, whether they have changed or not.
        now: the time of the clock, after which Dagster has no partitions.
    """
    live = live_generation(lakehouse, job.name)
    # Before the tables, whose rows up to it are written then.
    passed = watermark(live) if live else None
    written = written_by_job(lakehouse, job.name) if passed is not None else None
    if live is None or passed is None or written is None or written.generation != live.name:
        return PartitionReports()
    until = min(rows_written(f"job {job.name}", job, partitions)(passed), now or datetime.now(UTC))
    tables = JobTables(lakehouse, job, partitions.column, written)
    return _Reports(instance, asset, partitions, tables, live, until, asked).reports()


@dataclass(frozen=True)
class _Reports:
    """The partitions of a job's main table, and what Dagster knows of them.

    Attributes:
        until: all rows before this time are written.
        asked: a span whose partitions are reported in any case.
    """

    instance: dg.DagsterInstance
    asset: dg.AssetKey
    partitions: Partitions
    tables: JobTables
    live: Generation
    until: datetime
    asked: tuple[datetime, datetime] | None

    def reports(self) -> PartitionReports:
        """Return what is to be reported."""
        job, written, before = self.tables.job, self.tables.written, self._reported_before()
        if before is None or before.generation != written.generation:
            return self._of_all(before)
        new_rows, new_late = (
            self.tables.of_batches(table, before.generation, before.batch) for table in (job.name, job.late_table)
        )
        if new_rows is None or new_late is None:
            return self._of_all(before)
        starts = [start for times in (*new_rows.values(), *new_late.values()) for start, _ in times]
        replaced = [(since or before.since, until) for since, until in self.tables.replaced(self.live, before.batch)]
        lows = [*starts, *(since for since, _ in replaced), *(self.asked or ())[:1]]
        periods = self._periods(min([before.until, *lows]), starts)
        complete = [period for period in periods if period.end <= self.until]
        first = min([before.since, *starts])
        written_rows, changed_at = Counter[str](), _completed_at(complete, before, first)
        for batch, times in new_rows.items():
            for key, counted in in_periods(times, periods).items():
                written_rows[key] += counted.rows
                changed_at[key] = batch
        changed_at |= dict.fromkeys(self._with_rows_gone(complete, replaced), written.batch)
        if self.asked is not None:
            changed_at |= {period.key: written.batch + 1 for period in complete if _is_in(period, [self.asked])}
        changed = [period for period in complete if period.key in changed_at]
        earlier = self._earlier(changed)
        # A run that was killed while it reported has reported some.
        due = [
            period
            for period in changed
            if _batch_of(earlier.get(period.key), before.generation) < changed_at[period.key]
        ]
        late = {key for times in new_late.values() for key in in_periods(times, complete)}
        late -= {period.key for period in due}
        materialized = list(self._materializations(due, earlier, self.tables.within(job.name, due)))
        observed = list(self._observations([period for period in complete if period.key in late]))
        reported = self._reported(first, self.until)
        events: list[Any] = [*observed, *materialized]
        events[-1:] = [event.with_metadata({**event.metadata, **reported.metadata}) for event in events[-1:]]
        return PartitionReports(events, self._of_run(written_rows, due, earlier) | reported.metadata)

    def _with_rows_gone(
        self, complete: Sequence[Period], replaced: Sequence[tuple[datetime, datetime | None]]
    ) -> list[str]:
        """Return the partitions whose rows were replaced by another number of rows."""
        periods = [period for period in complete if _is_in(period, replaced)]
        earlier, counts = self._earlier(periods), self.tables.within(self.tables.job.name, periods)
        return [
            key
            for key, report in earlier.items()
            if ROWS in report.metadata and report.metadata[ROWS].value != counts.get(key, Counted()).rows
        ]

    def _of_all(self, before: _Reported | None) -> PartitionReports:
        """Return reports of all complete partitions: none is reported, or all belong to another generation."""
        job = self.tables.job
        times = self.tables.all(job.name)
        firsts = [before and before.since, self.tables.first_event(), *(start for start, _ in times[:1])]
        since = min((first for first in firsts if first is not None), default=self.until)
        periods = self._periods(since, [start for start, _ in times])
        counts, due = in_periods(times, periods), [period for period in periods if period.end <= self.until]
        earlier = self._earlier(due)
        events = [
            # In order of time: a run that goes on after one that was killed begins with the next.
            event.with_metadata({**event.metadata, **self._reported(since, period.end).metadata})
            for period, event in zip(due, self._materializations(due, earlier, counts), strict=True)
        ]
        changed = Counter({key: counted.rows for key, counted in counts.items()})
        return PartitionReports(
            events, self._of_run(changed, due, earlier) | self._reported(since, self.until).metadata
        )

    def _reported_before(self) -> _Reported | None:
        """Return up to where partitions are reported; None if none are."""
        cursor = None
        while True:
            page = self.instance.fetch_materializations(self.asset, limit=_PAGE, cursor=cursor)
            for record in page.records:
                report = record.asset_materialization
                if report is not None and REPORTED in report.metadata:
                    newest = _Reported.read(str(report.metadata[REPORTED].value))
                    return newest if newest.by == self._by else None
            if not page.has_more:
                return None
            cursor = page.cursor

    @property
    def _by(self) -> str:
        return f"{self.partitions.column} {self.partitions.every} {self.partitions.zone}"

    def _reported(self, since: datetime, until: datetime) -> _Reported:
        return _Reported(self._by, self.tables.written.generation, self.tables.written.batch, since, until)

    def _periods(self, since: datetime, starts: Sequence[datetime]) -> list[Period]:
        """Return the partitions from a time on, also those that are not complete but have rows."""
        return self.partitions.periods(since, max([self.until, *(start + QUARTER for start in starts)]))

    def _earlier(self, periods: Sequence[Period]) -> dict[str, dg.AssetMaterialization]:
        """Return the newest materialization of each partition that has one."""
        earlier = dict[str, dg.AssetMaterialization]()
        for at in range(0, len(periods), _PAGE):
            keys = {period.key for period in periods[at : at + _PAGE]}
            cursor, has_more = None, True
            while has_more and not keys <= earlier.keys():
                records = dg.AssetRecordsFilter(self.asset, asset_partitions=sorted(keys - earlier.keys()))
                page = self.instance.fetch_materializations(records, limit=_PAGE, cursor=cursor)
                for record in page.records:
                    if (report := record.asset_materialization) is not None and report.partition is not None:
                        earlier.setdefault(report.partition, report)
                cursor, has_more = page.cursor, page.has_more
        return earlier

    def _materializations(
        self,
        periods: Sequence[Period],
        earlier: Mapping[str, dg.AssetMaterialization],
        counts: Mapping[str, Counted],
    ) -> Iterator[dg.AssetMaterialization]:
        written, late = self.tables.written, self._late(periods)
        for period in periods:
            before, counted = earlier.get(period.key), counts.get(period.key, Counted())
            rows_before = before.metadata.get(ROWS) if before else None
            is_same = before is None or _batch_of(before, written.generation) >= 0
            status = "complete" if before is None else "changed" if is_same else "other generation"
            metadata = {
                STATUS: dg.MetadataValue.text(status),
                ROWS: dg.MetadataValue.int(counted.rows),
                **({ROWS_BEFORE: rows_before} if rows_before is not None else {}),
                # Of some tables, no row stands for an event.
                **({"events": dg.MetadataValue.int(counted.events)} if counted.events else {}),
                LATE: dg.MetadataValue.int(late.get(period.key, Counted()).events),
                "start": dg.MetadataValue.timestamp(period.start),
                "end": dg.MetadataValue.timestamp(period.end),
                GENERATION: dg.MetadataValue.text(written.generation),
                BATCH: dg.MetadataValue.text(str(written.batch)),
            }
            yield dg.AssetMaterialization(self.asset, partition=period.key, metadata=metadata)

    def _observations(self, periods: Sequence[Period]) -> Iterator[dg.AssetObservation]:
        """Return observations of partitions that have late events which no report counts."""
        late = self._late(periods)
        for period in periods:
            records = dg.AssetRecordsFilter(self.asset, asset_partitions=[period.key])
            reports = [
                *(record.asset_observation for record in self.instance.fetch_observations(records, limit=1).records),
                *(
                    record.asset_materialization
                    for record in self.instance.fetch_materializations(records, limit=1).records
                ),
            ]
            number = late.get(period.key, Counted()).events
            if number > max((int(str(report.metadata[LATE].value)) for report in reports if report), default=0):
                metadata = {LATE: dg.MetadataValue.int(number)}
                yield dg.AssetObservation(self.asset, partition=period.key, metadata=metadata)

    def _late(self, periods: Sequence[Period]) -> Mapping[str, Counted]:
        return self.tables.within(self.tables.job.late_table, periods)

    def _of_run(
        self, changed: Mapping[str, int], due: Sequence[Period], earlier: Mapping[str, Any]
    ) -> dict[str, dg.MetadataValue]:
        """Return what a run did: the partitions that it wrote to, and those that it has completed or changed."""
        keys = {
            "partitions_written": [f"{key} (+{rows:,})" for key, rows in sorted(changed.items())],
            "partitions_complete": [period.key for period in due if period.key not in earlier],
            "partitions_changed": [period.key for period in due if period.key in earlier],
        }
        return {
            "complete_until": dg.MetadataValue.timestamp(self.until),
            **{name: dg.MetadataValue.text(_listed(names)) for name, names in keys.items() if names},
        }


def _completed_at(complete: Sequence[Period], before: _Reported, first: datetime) -> dict[str, int]:
    """Return the partitions that have become complete since the last report, each with a batch before that.

    Args:
        complete: the partitions that are complete.
        before: the last report.
        first: the earliest time of an event or row.
    """
    new = {period.key: before.batch for period in complete if period.end > before.until}
    # Where a row is older than all that was known, the empty partitions after it are complete too.
    return new | {period.key: 0 for period in complete if first < period.end <= before.since}


def _batch_of(report: dg.AssetMaterialization | None, generation: str) -> int:
    """Return the batch at which a partition was reported; -1 if it was not in this generation."""
    metadata = report.metadata if report is not None else {}
    is_same = GENERATION in metadata and metadata[GENERATION].value == generation
    return int(str(metadata[BATCH].value)) if is_same else -1


def _is_in(period: Period, spans: Sequence[tuple[datetime, datetime | None]]) -> bool:
    """Return whether a partition has a part of a span; one without an end goes on."""
    return any(since < period.end and (until is None or period.start < until) for since, until in spans)


def _listed(names: Sequence[str]) -> str:
    """List names, of many the first and the last ones."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    half = _MOST_NAMED // 2
    return f"{', '.join(names[:half])}, … ({len(names) - 2 * half:,} more) …, {', '.join(names[-half:])}"
