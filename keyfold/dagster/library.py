"""Build the assets and checks of streams and jobs, and everything that a group of them needs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from keyfold.dagster.assets.checks import asset_checks
from keyfold.dagster.assets.job_checks import job_checks
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.shown import JobAssets, StreamAssets
from keyfold.dagster.assets.stream_checks import stream_checks
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.automation.schedules import group_schedule
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.declared import note
from keyfold.dagster.quality import partition_checks
from keyfold.dagster.suites import read_partition, suite_checks
from keyfold.dagster.table_inputs import RESOURCE
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import Stream

if TYPE_CHECKING:
    from keyfold.suite import Suite


def keyfold_assets(
    *,
    jobs: Sequence[KeyedJob | JobAssets] = (),
    streams: Sequence[Stream | StreamAssets] = (),
    suites: "Mapping[str, Suite] | None" = None,
    translator: KeyfoldTranslator = DEFAULT,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of streams and jobs, with the checks that no row is lost, health checks and suites.

    They need the resource `keyfold` (`KeyfoldResource`).

    Args:
        jobs: the jobs, as they are or with how Dagster shows them (`JobAssets`).
        streams: the streams whose files or messages are ingested, as they are or with how Dagster shows them (`StreamAssets`).
        suites: suites of expectations, by table.
        translator: names and describes the assets.

    Returns:
        Assets and checks, for `dagster.Definitions(assets=…)`.

    Raises:
        Misconfigured: a job with partitions reads a table with partitions.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> from spark_jobs.streams import RIDE_POINTS
        >>> defs = dg.Definitions(assets=keyfold_assets(streams=[RIDE_POINTS], jobs=[RIDE_SUMMARIES]))
    """
    shown_jobs = [job if isinstance(job, JobAssets) else JobAssets(job) for job in jobs]
    shown_streams = [stream if isinstance(stream, StreamAssets) else StreamAssets(stream) for stream in streams]
    declared = {shown.job.name: shown.job for shown in shown_jobs}
    _check_partitions(shown_jobs)
    note([shown.stream for shown in shown_streams], declared.values())
    # What a job reads, or a suite checks, is an asset.
    used = {*(suites or {}), *(input_.table for job in declared.values() for input_ in job.inputs.values())}
    return [
        *(
            definition
            for shown in shown_streams
            for definition in (*stream_assets(shown, translator), stream_checks(shown, translator))
        ),
        *(keyed_assets(shown, translator, late_asset=shown.job.late_table in used) for shown in shown_jobs),
        *(checks for shown in shown_jobs for checks in checks_of_job(shown, suites or {}, translator)),
    ]


def _check_partitions(shown_jobs: Sequence[JobAssets]) -> None:
    """Check that no job with partitions reads a table with partitions, which Dagster does not let a run without partitions write.

    Raises:
        Misconfigured: one does.
    """
    partitioned = {shown.job.name for shown in shown_jobs if shown.partitions is not None}
    for shown in shown_jobs:
        if shown.job.name in partitioned and (read := partitioned.intersection(shown.job.producers)):
            raise Misconfigured(
                f"job {shown.job.name}: partitions: it reads the table of {', '.join(sorted(read))}, which has partitions too: Dagster "
                "runs no asset with partitions after another one without a partition; leave them out of one of the two"
            )


def checks_of_job(
    shown: JobAssets, suites: "Mapping[str, Suite]", translator: KeyfoldTranslator = DEFAULT
) -> list[dg.AssetChecksDefinition]:
    """Build the checks of a job's tables: one step a table, which evaluates Keyfold's checks and the table's suite."""
    job, pool = shown.job, f"job_{shown.job.name}"
    partitions = shown.partitions if partition_checks.ARE_SUPPORTED else None
    suite_of = {
        table.name: suite_checks(
            job, table, suites[table.name], translator, partitions if table.name == job.name else None
        )
        for table in job.tables
        if table.name in suites
    }
    of_partitions = suite_of.pop(job.name) if partitions is not None and job.name in suite_of else None
    return [
        job_checks(shown, suite_of.pop(job.name, None), translator),
        *(asset_checks(suite.asset, suite=suite, pool=pool) for suite in suite_of.values()),
        *(
            [
                partition_checks.partition_checks(
                    of_partitions,
                    read_partition(job.name, partitions),
                    required_resource_keys={RESOURCE},
                    pool=pool,
                )
            ]
            if partitions is not None and of_partitions is not None
            else []
        ),
    ]


def keyfold_group(
    name: str,
    *,
    jobs: Sequence[KeyedJob | JobAssets] = (),
    streams: Sequence[Stream | StreamAssets] = (),
    suites: "Mapping[str, Suite] | None" = None,
    owners: Sequence[str] = (),
) -> dg.Definitions:
    """Build an asset group with what starts it: a sensor a stream, and one schedule.

    Sensors and schedules are off until they are switched on. Of another translator, put `keyfold_assets`, `landing_sensor`
    and `group_schedule` together.

    Args:
        name: the group's name.
        jobs, streams, suites: as for `keyfold_assets`.
        owners: people or teams, in Dagster's notation.
    """
    translator = KeyfoldTranslator(group=name, owners=owners)
    declared = [job.job if isinstance(job, JobAssets) else job for job in jobs]
    group = dg.AssetSelection.groups(name)
    return dg.Definitions(
        assets=keyfold_assets(jobs=jobs, streams=streams, suites=suites, translator=translator),
        sensors=[
            landing_sensor(
                stream.stream if isinstance(stream, StreamAssets) else stream, target=group, translator=translator
            )
            for stream in streams
        ],
        schedules=[group_schedule(f"{name}_schedule", *declared, target=group, translator=translator)],
    )
