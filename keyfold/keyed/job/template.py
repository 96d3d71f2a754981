"""Declare a job with parameters."""

import inspect
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
        parameters: the model, usually a subclass of `JobParameters`.
        build: makes the job from an instance of the model.
        description: description of the job; by default, the first paragraph of `build`'s docstring.

    Example:
        >>> from keyfold import JobParameters
        >>> class Gap(JobParameters):
        ...     minutes: int = 30
        >>> def build(gap: Gap):
        ...     '''One row per visit of a user.'''
        >>> template = JobTemplate("sessions", Gap, build)
        >>> template.parameters(minutes=5).minutes
        5
        >>> template.description
        'One row per visit of a user.'
    """

    name: str
    parameters: type[BaseModel]
    build: Callable[[Any], KeyedJob]
    description: str = ""

    def __post_init__(self) -> None:
        # Other callables, such as a `partial`, have the docstring of their class.
        if not self.description and inspect.isfunction(self.build):
            paragraph = (inspect.getdoc(self.build) or "").partition("\n\n")[0]
            object.__setattr__(self, "description", " ".join(paragraph.split()))
