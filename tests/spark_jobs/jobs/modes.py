"""Every mode of a shipped job: each choice that its parameters give, with each other that they allow."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal, get_args, get_origin

from keyfold import KeyedJob, KeyfoldError, build_job
from keyfold.keyed.job.parameters import describe_parameters
from spark_jobs.jobs.registry import JOBS

_LENGTHS = {"duration": ["30m"], "window": ["10m", "30m every 10m"]}
"""Values of parameters that may be left out, by their type."""


def modes_of(name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the settings of each mode of a job; of one without choices, none."""
    job = JOBS[name]
    choices: dict[str, list[Any]] = {}
    for described in describe_parameters(job.parameter_fields):
        kind = job.parameter_fields[described.name].annotation
        if get_origin(kind) is Literal:
            choices[described.name] = [*get_args(kind)]
        elif kind is bool:
            choices[described.name] = [False, True]
        elif described.default is None and described.type in _LENGTHS:
            choices[described.name] = [None, *_LENGTHS[described.type]]
    for values in product(*choices.values()):
        settings = {one: value for one, value in zip(choices, values, strict=True) if value is not None}
        if _fits(job, settings):
            yield settings


def _fits(job: KeyedJob, settings: Mapping[str, Any]) -> bool:
    try:
        build_job(job, settings)
    except KeyfoldError:
        return False
    return True
