"""Find the job of a state command."""

from collections.abc import Mapping

from keyfold.cli.options import require_known
from keyfold.cli.terminal import usage_faults
from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.keyed.generation.configured import live_parameters
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.project import jobs_if_any, project_jobs
from keyfold.state.reading.reader import find_generation, jobs_with_state


def require_lakehouse(lakehouse: Lakehouse) -> None:
    """Check that there is a lakehouse, before a lock or anything else is made in a folder that is none.

    Raises:
        Misconfigured: the folder has neither events nor jobs.
    """
    if not any(True for kind in ("events", "jobs") for _ in lakehouse.home.glob(f"{kind}/*")):
        raise Misconfigured(
            f"{lakehouse.home} is no lakehouse: it has neither events nor jobs; correct KEYFOLD_HOME or --home, or ingest first"
        )


def job_or_name(lakehouse: Lakehouse, name: str, generation: str | None = None) -> KeyedJob | str:
    """Return the job with the parameters of its generation, or its name if the project no longer has the job.

    Raises:
        typer.BadParameter: neither the project nor the lakehouse has the job.
        KeyfoldError: the job has not run.
    """
    require_job_or_state(lakehouse, name)
    born = find_generation(lakehouse, name, generation).record["parameters"]
    if name not in jobs_if_any():
        return name
    try:
        return build_job(jobs_if_any()[name], born_with=born)
    except KeyfoldError:
        return name  # the job no longer has these parameters; the columns are read from the state itself


def require_job_or_state(lakehouse: Lakehouse, name: str) -> None:
    """Check that the project has a job, or that the lakehouse has state of a job that the project no longer has.

    Raises:
        typer.BadParameter: neither has it.
    """
    if name not in (jobs := jobs_if_any()):
        has_run = [one for one in jobs_with_state(lakehouse) if one not in jobs]
        require_known("job", name, [*jobs, *has_run])


def build_live_job(lakehouse: Lakehouse, name: str, given: Mapping[str, str]) -> KeyedJob:
    """Build the job with the given parameters; the others are those of its live generation.

    Raises:
        typer.BadParameter: the project has no such job, or a parameter's value is invalid.
        KeyfoldError: the live generation is missing.
    """
    require_known("job", name, project_jobs())
    born_with = live_parameters(lakehouse, name)
    with usage_faults():
        return build_job(project_jobs()[name], given, born_with)
