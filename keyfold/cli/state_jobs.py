"""The job that a command on state is about."""

from collections.abc import Mapping

from keyfold.cli.known_names import require_job, require_known
from keyfold.cli.terminal import usage_faults
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.configured import live_parameters
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.parameters import build_job
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.state.reading.retained_batches import find_generation, jobs_with_state


def job_or_name(lakehouse: Lakehouse, name: str, generation: str | None = None) -> KeyedJob | str:
    """The job with the parameters that its generation was born with; its name where there is no such job (any more).

    Raises:
        typer.BadParameter: there is no such job.
        KeyfoldError: it has not run.
    """
    require_job_or_state(lakehouse, name)
    born = find_generation(lakehouse, name, generation).record["parameters"]
    if name not in project_jobs():
        return name
    try:
        return build_job(project_jobs()[name], born_with=born)
    except KeyfoldError:
        return name  # born with parameters that the job has no more: the state itself tells its columns


def require_job_or_state(lakehouse: Lakehouse, name: str) -> None:
    """Check that the project has a job, or that the lakehouse has state of one that the project has no more.

    Raises:
        typer.BadParameter: neither.
    """
    if name not in project_jobs():
        has_run = [one for one in jobs_with_state(lakehouse) if one not in project_jobs()]
        require_known("job", name, [*project_jobs(), *has_run])


def build_live_job(lakehouse: Lakehouse, name: str, given: Mapping[str, str]) -> KeyedJob:
    """The job with the parameters given, and else those that its live generation was born with.

    Raises:
        typer.BadParameter: there is no such job, or a parameter has a value that it cannot have.
        KeyfoldError: the live generation is lost.
    """
    require_job(name)
    born_with = live_parameters(lakehouse, name)
    with usage_faults():
        return build_job(project_jobs()[name], given, born_with)
