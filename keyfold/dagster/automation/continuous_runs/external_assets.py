"""Show streams and jobs that run continuously outside of Dagster as external assets.

    KEYFOLD_CONTINUOUS   their names, separated by blanks: `weather moving_averages`

Dagster cannot materialize such an asset: another process writes it (`keyfold ingest weather --continuous`, `keyfold run
moving_averages --continuous`) and holds its lock. The sensor `<name>_continuous` reports rows, watermark and lag from the
journal as observations. The schedule `watch_<name>` reports newly written rows as a materialization, which freshness policies
and downstream assets need, and runs the checks on them.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from keyfold.dagster.assets.groups import Group
from keyfold.dagster.assets.metadata import BATCH, GENERATION, batch_metadata, last_materialization, table_key
from keyfold.dagster.automation.continuous_runs.standing import (
    Standing,
    is_healthy,
    look,
    standing_of_ingest,
    standing_of_job,
)
from keyfold.dagster.automation.starting.sensors import unfinished_run
from keyfold.errors import Misconfigured
from keyfold.keyed.job.parameters import typical_job
from keyfold.keyed.job.template import JobTemplate
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_streams
from keyfold.stream import Stream
from keyfold.stream.sharing import streams_with

VARIABLE = "KEYFOLD_CONTINUOUS"
TAG = "keyfold/continuous"

CHECKS = "*/10 * * * *"

_EVENTS = "keyfold/events"
"""Metadata key: total number of events read."""


@dataclass(frozen=True)
class Continuous:
    """A stream or a job that runs continuously.

    Attributes:
        name: the stream or job.
        tables: the tables that it writes, its main table first.
        standing: returns its present status.
        command: the command that runs it, for people.
    """

    name: str
    tables: Sequence[str]
    standing: Callable[[Lakehouse], Standing]
    command: str

    @property
    def keys(self) -> list[dg.AssetKey]:
        """The asset keys of its tables."""
        return [table_key(table) for table in self.tables]


def declared(groups: Sequence[Group], environment: Mapping[str, str] = os.environ) -> list[Continuous]:
    """Return the streams and jobs that KEYFOLD_CONTINUOUS names.

    Raises:
        KeyfoldError: it names an unknown stream or job.
    """
    names = environment.get(VARIABLE, "").split()
    known = {
        **{group.stream.name: _stream(group.stream) for group in groups if group.stream is not None},
        **{template.name: _job(template) for group in groups for template in group.jobs},
    }
    if unknown := [name for name in names if name not in known]:
        raise Misconfigured(
            f"{VARIABLE} names unknown streams or jobs: {', '.join(unknown)}; known are {', '.join(known)}"
        )
    return [known[name] for name in dict.fromkeys(names)]


def as_external(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec], continuous: Sequence[Continuous]
) -> Iterator[dg.AssetsDefinition | dg.AssetSpec]:
    """Yield the assets, with those that run continuously turned into specs, which Dagster cannot materialize."""
    by_key = {key: one for one in continuous for key in one.keys}
    for asset in assets:
        if isinstance(asset, dg.AssetSpec) or not asset.keys & by_key.keys():
            yield asset
            continue
        for spec in asset.specs:
            one = by_key[spec.key]
            yield spec.replace_attributes(
                description=f"{spec.description}\n\nWritten by `{one.command}`, which runs outside of Dagster.",
                skippable=False,
                tags={**spec.tags, TAG: one.name},
            )


def watching(one: Continuous) -> tuple[dg.SensorDefinition, dg.ScheduleDefinition, dg.AssetChecksDefinition]:
    """Build the sensor that observes a continuous run, the schedule that runs its checks, and the check that it is running."""
    return _sensor(one), _schedule(one), _check(one)


def written_since(
    standing: Standing, table: str, before: dg.AssetMaterialization | None
) -> dg.AssetMaterialization | None:
    """Return a materialization of the rows that a table got since the last one; None if there are none.

    Args:
        standing: the present status of its job or stream.
        table: the table's name.
        before: the table's last materialization.
    """
    if standing.batch is None:
        return None
    reported = before.metadata if before is not None else {}
    if (_value(reported, GENERATION), _value(reported, BATCH)) == (standing.generation, standing.batch):
        return None
    events = standing.events
    if _value(reported, GENERATION) == standing.generation and isinstance(earlier := _value(reported, _EVENTS), int):
        events -= earlier
    return dg.AssetMaterialization(
        table_key(table),
        metadata={
            **batch_metadata(standing.generation, standing.batch, before),
            "dagster/row_count": standing.rows.get(table, 0),
            "events_in": events,
            _EVENTS: standing.events,
        },
    )


def _stream(stream: Stream) -> Continuous:
    streams = streams_with(stream, project_streams())
    return Continuous(
        stream.name,
        [f"{kind}.{one.name}" for one in streams for kind in ("events", "quarantine")],
        lambda lakehouse: standing_of_ingest(lakehouse, streams),
        f"keyfold ingest {stream.name} --continuous",
    )


def _job(template: JobTemplate) -> Continuous:
    return Continuous(
        template.name,
        [table.name for table in typical_job(template).tables],
        lambda lakehouse: standing_of_job(lakehouse, template),
        f"keyfold run {template.name} --continuous",
    )


def _sensor(one: Continuous) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{one.name}_continuous",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Reports rows, watermark and lag of `{one.command}` from its journal. It starts no runs.",
    )
    def observe(
        context: dg.SensorEvaluationContext, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> dg.SensorResult | dg.SkipReason:
        standing = one.standing(lakehouse)
        found = look(standing, context.cursor, datetime.now(UTC))
        if not found.metadata:
            return dg.SkipReason(found.reason)
        metadata = {
            name: dg.MetadataValue.timestamp(value) if isinstance(value, datetime) else value
            for name, value in found.metadata.items()
        }
        return dg.SensorResult(
            asset_events=[
                dg.AssetObservation(table_key(table), metadata={"rows": standing.rows.get(table, 0), **metadata})
                for table in one.tables
            ],
            cursor=found.cursor,
        )

    return observe


def _schedule(one: Continuous) -> dg.ScheduleDefinition:
    job = dg.define_asset_job(
        f"watch_{one.name}",
        selection=dg.AssetSelection.checks_for_assets(*one.keys),
        description=f"All checks of the tables that `{one.command}` writes.",
    )

    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=CHECKS,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=job.description,
    )
    def watch(
        context: dg.ScheduleEvaluationContext, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> dg.RunRequest | dg.SkipReason:
        # Otherwise runs would queue up whenever one takes longer than the interval.
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} has not finished")
        standing = one.standing(lakehouse)
        # Before the run, since its checks read the rows of the newest materialization.
        for table in one.tables:
            before = last_materialization(context.instance, table_key(table))
            if (event := written_since(standing, table, before)) is not None:
                context.instance.report_runless_asset_event(event)
        return dg.RunRequest()

    return watch


def _check(one: Continuous) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=one.keys[0],
        name="it_goes_on",
        description=f"`{one.command}` is running and finishes its batches.",
    )
    def it_goes_on(lakehouse: dg.ResourceParam[Lakehouse]) -> dg.AssetCheckResult:
        passed, description = is_healthy(one.standing(lakehouse), datetime.now(UTC))
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.ERROR, description=description)

    return it_goes_on


def _value(metadata: Mapping[str, dg.MetadataValue], name: str) -> object:
    return metadata[name].value if name in metadata else None
