"""The job that a command on state is about."""

from collections.abc import Mapping

from keyfold.errors import KeyfoldError
from keyfold.keyed.configured import configured_job
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.parameters import build_job
from keyfold.lakehouse import Lakehouse
from keyfold.project import project_jobs
from keyfold.state.places import find_generation


def job_or_name(lakehouse: Lakehouse, name: str, generation: str | None = None) -> KeyedJob | str:
    """The job with the parameters that its generation was born with; its name where there is no such job (any more).

    Raises:
        KeyfoldError: nothing of that name has run.
    """
    born = find_generation(lakehouse, name, generation).record["parameters"]
    if name not in project_jobs():
        return name
    try:
        return build_job(project_jobs()[name], born_with=born)
    except KeyfoldError:
        return name  # born with parameters that the job has no more: the state itself tells its columns


def build_live_job(lakehouse: Lakehouse, name: str, given: Mapping[str, str]) -> KeyedJob:
    """The job with the parameters given, and else those that its live generation was born with.

    Raises:
        KeyfoldError: there is no such job, or a parameter is none.
    """
    if name not in project_jobs():
        raise KeyfoldError(f"no job {name!r}; jobs there: {', '.join(project_jobs())}")
    return configured_job(lakehouse, project_jobs()[name], given=given)
