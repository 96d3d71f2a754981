"""A job before it has its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from keyfold.keyed.job.contract import KeyedJob


@dataclass(frozen=True)
class JobTemplate:
    """A job before it has its parameters: a typed, documented model of them, and the function that builds the job of them.

    Attributes:
        name: of the job.
        description: what people read of it.
        parameters: the model, usually a `JobParameters`.
        build: makes the job of an instance of the model.

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
