"""Build a job with the parameters of its live generation. Separate from `job.parameters`, so that workers import less."""

from collections.abc import Mapping
from typing import Any

from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import NEW_EVENTS, FullRefresh, RunMode
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse


def configured_job(
    lakehouse: Lakehouse,
    declared: KeyedJob,
    mode: RunMode = NEW_EVENTS,
    parameters: Mapping[str, Any] | None = None,
) -> KeyedJob:
    """Build the job of a run. Parameters that are not given are those of the live generation, or the defaults in a refresh.

    Those that the job was built with count as given where they differ from the defaults.

    Raises:
        KeyfoldError: as `build_job`; or the live generation is missing, or an earlier version of Keyfold made it.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> configured_job(Lakehouse("~/lakehouse"), RIDE_SUMMARIES).name
        'ride_summaries'
    """
    if declared.model is None and not parameters:
        return declared
    built_with = {}
    if declared.model is not None:
        default = declared.model().model_dump(mode="json")
        built_with = {name: value for name, value in declared.parameters.items() if value != default.get(name)}
    live = live_parameters(lakehouse, declared.name, mode)
    # A job that was built with these parameters, as the command does, is not built again.
    if not parameters and (live is None or {**live, **built_with} == dict(declared.parameters)):
        return declared
    return build_job(declared, {**built_with, **(parameters or {})}, live)


def live_parameters(lakehouse: Lakehouse, job: str, mode: RunMode = NEW_EVENTS) -> Mapping[str, Any] | None:
    """Return the parameters of a job's live generation; None before the first generation, and for a full refresh.

    Raises:
        KeyfoldError: the live generation is missing, or an earlier version of Keyfold made it; names the remedy.

    Example:
        >>> from tempfile import mkdtemp
        >>> live_parameters(Lakehouse(mkdtemp()), "visits") is None
        True
    """
    live = None if isinstance(mode, FullRefresh) else live_generation(lakehouse, job)
    return live.record.parameters if live else None
