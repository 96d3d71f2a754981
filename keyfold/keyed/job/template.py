"""Declare a job with parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from keyfold.keyed.job.contract import KeyedJob


@dataclass(frozen=True)
class JobTemplate:
    """A job with parameters: a typed, documented model of the parameters, and the function that builds the job from them.

    Attributes:
        name: name of the job.
        description: description of the job.
        parameters: the model, usually a subclass of `JobParameters`.
        build: makes the job from an instance of the model.

    Example:
        >>> from keyfold import JobParameters
        >>> class Gap(JobParameters):
        ...     minutes: int = 30
        >>> template = JobTemplate("sessions", "Visits of users", Gap, lambda gap: ...)
        >>> template.parameters(minutes=5).minutes
        5
    """

    name: str
    description: str
    parameters: type[BaseModel]
    build: Callable[[Any], KeyedJob]
