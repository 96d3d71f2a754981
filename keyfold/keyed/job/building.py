"""Build jobs with parameters."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from pydantic import BaseModel

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.validation import validated


def with_parameters(build: Callable[[Any], KeyedJob]) -> KeyedJob:
    """Return the job that a function builds with the default parameters; runs build it again with others.

    Args:
        build: takes an instance of the model that its argument is annotated with, usually a subclass of `JobParameters`. The
            first paragraph of its docstring is the job's description.

    Raises:
        Misconfigured: the argument has no model, or the defaults do not fit.

    Example:
        >>> import polars as pl, pyarrow as pa
        >>> from keyfold import Append, Input, JobParameters, KeyedJob, Step, Stream, required
        >>> seen = pa.schema([required("user", pa.string(), "Who"), required("at", pa.timestamp("us", "UTC"), "When")])
        >>> clicks = Stream("clicks", seen, event_time="at")
        >>> class Gap(JobParameters):
        ...     minutes: int = 30
        >>> def build(gap: Gap) -> KeyedJob:
        ...     '''One row per visit of a user.'''
        ...     step = lambda state, events, clock: Step(output=events)
        ...     return KeyedJob("visits", Input(clicks, columns=("user", "at"), final_at="at"), "user", seen, step, Append(seen))
        >>> visits = with_parameters(build)
        >>> visits.description, dict(build_job(visits, {"minutes": 5}).parameters)
        ('One row per visit of a user.', {'time': 'event', 'key_groups': 64, 'minutes': 5})
    """
    try:
        hints = get_type_hints(build)
        model = next(kind for name, kind in hints.items() if name != "return")
    except (StopIteration, NameError, TypeError):
        model = None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise Misconfigured(
            f"{build!r} must take one argument that is annotated with a model of parameters (JobParameters)"
        )
    paragraph = (inspect.getdoc(build) or "").partition("\n\n")[0]
    name = (getattr(build, "__module__", None) or "").rpartition(".")[2]
    return _built(name, build, model, {}, " ".join(paragraph.split()))


def build_job(
    job: KeyedJob, parameters: Mapping[str, Any] | None = None, of_generation: Mapping[str, Any] | None = None
) -> KeyedJob:
    """Build a job with these parameters; others are those of its live generation (`of_generation`), or the defaults.

    Raises:
        Misconfigured: a parameter is unknown or invalid; names it, and the values that it takes.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> build_job(RIDE_SUMMARIES, {"key_groups": 8}).key_groups
        8
    """
    values = {**(of_generation or {}), **(parameters or {})}
    if job.build is None and not values:
        return job
    if job.build is None or job.model is None:
        raise Misconfigured(f"job {job.name} has no parameters: leave out {', '.join(values)}")
    built = _built(job.name, job.build, job.model, values, job.description)
    if of_generation is None:
        return built
    # Leave out parameters that the generation does not know and that have their default, so that it can be continued.
    default = job.parameters
    recorded = {
        name: value for name, value in built.parameters.items() if name in of_generation or value != default.get(name)
    }
    return replace(built, parameters=recorded)


def _built(
    name: str, build: Callable[[Any], KeyedJob], model: type[BaseModel], values: Mapping[str, Any], description: str
) -> KeyedJob:
    parameters = validated(model, values, f"job {name}", noun="parameter")
    job = build(parameters)
    if getattr(parameters, "time", None) == "arrival" and not job.streams:
        raise Misconfigured(
            f"job {job.name}: time=arrival, and it reads {', '.join(job.producers)} alone, whose rows have no arrival; give "
            "time=arrival to the job that reads the stream"
        )
    return replace(
        job,
        parameters=parameters,
        key_groups=job.declared_key_groups,
        build=build,
        description=description or job.description,
    )
