"""Build the assets and checks of streams and jobs, and everything that a group of them needs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from keyfold.dagster.assets.health_checks import health_checks, stream_health_checks
from keyfold.dagster.assets.keyed_asset import JobAssets, conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from keyfold.dagster.automation.schedules import advance_schedule, nightly_schedule
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.declared import note
from keyfold.dagster.suites import suite_checks
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import Stream

if TYPE_CHECKING:
    from keyfold.suite import Suite


def keyfold_assets(
    *,
    jobs: Sequence[KeyedJob | JobAssets] = (),
    streams: Sequence[Stream] = (),
    suites: "Mapping[str, Suite] | None" = None,
    translator: KeyfoldTranslator = DEFAULT,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of streams and jobs, with the checks that no row is lost, health checks and suites.

    They need the resource `keyfold` (`KeyfoldResource`).

    Args:
        jobs: the jobs, as they are or with plots (`JobAssets`).
        streams: the streams whose files or messages are ingested.
        suites: suites of expectations, by table.
        translator: names and describes the assets.

    Returns:
        Assets and checks, for `dagster.Definitions(assets=…)`.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> from spark_jobs.streams import RIDE_POINTS
        >>> defs = dg.Definitions(assets=keyfold_assets(streams=[RIDE_POINTS], jobs=[RIDE_SUMMARIES]))
    """
    shown = [one if isinstance(one, JobAssets) else JobAssets(one) for one in jobs]
    declared = {one.job.name: one.job for one in shown}
    note(streams, declared.values())
    return [
        *(
            one
            for stream in streams
            for one in (
                *stream_assets(stream, translator),
                stream_check(stream, translator),
                stream_health_checks(stream, translator),
            )
        ),
        *(keyed_assets(one, translator) for one in shown),
        *(conservation_check(job, translator) for job in declared.values()),
        *(health_checks(job, translator) for job in declared.values()),
        *(checks for job in declared.values() for checks in suite_checks(job, suites or {}, translator)),
    ]


def keyfold_group(
    name: str,
    *,
    jobs: Sequence[KeyedJob | JobAssets] = (),
    streams: Sequence[Stream] = (),
    suites: "Mapping[str, Suite] | None" = None,
    owners: Sequence[str] = (),
) -> dg.Definitions:
    """Build an asset group with what starts it: a sensor a stream, one schedule `advance` and one `nightly`.

    Sensors and schedules are off until they are switched on. Of another translator, put `keyfold_assets`, `landing_sensor`,
    `advance_schedule` and `nightly_schedule` together.

    Args:
        name: the group's name.
        jobs, streams, suites: as for `keyfold_assets`.
        owners: people or teams, in Dagster's notation.
    """
    translator = KeyfoldTranslator(group=name, owners=owners)
    declared = [one.job if isinstance(one, JobAssets) else one for one in jobs]
    group = dg.AssetSelection.groups(name)
    return dg.Definitions(
        assets=keyfold_assets(jobs=jobs, streams=streams, suites=suites, translator=translator),
        sensors=[landing_sensor(stream, target=group, translator=translator) for stream in streams],
        schedules=[
            *([advance_schedule(*declared, name=f"advance_{name}", translator=translator)] if declared else []),
            nightly_schedule(group, name=f"nightly_{name}"),
        ],
    )
