"""Let a step that a person can mend fail with the message of its error, as `dg.Failure`, and not with the frames of Keyfold's code."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import dagster as dg

from keyfold.errors import Damaged, IncompatibleState, InvalidData, KeyfoldError, Misconfigured, NotFound, StepFailed

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_AGAIN = (Damaged, IncompatibleState, InvalidData, Misconfigured, NotFound, StepFailed)
"""Errors that a retry without a change meets again (`docs/reference/errors.md`)."""

ERROR = "keyfold/error"
"""Metadata of a failure: the class of the error, whose message quotes no private value and no secret."""


def fails_with_message(step: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate the function of an asset or a check, below Dagster's decorator.

    Dagster does not retry what fails again without a change.
    """
    if inspect.isgeneratorfunction(step):

        @wraps(step)
        def yields(*arguments: _Given.args, **named: _Given.kwargs) -> Iterator[Any]:
            with _as_failure():
                yield from step(*arguments, **named)

        return cast(Any, yields)

    @wraps(step)
    def returns(*arguments: _Given.args, **named: _Given.kwargs) -> _Result:
        with _as_failure():
            return step(*arguments, **named)

    return returns


@contextmanager
def _as_failure() -> Iterator[None]:
    try:
        yield
    except KeyfoldError as error:
        failure = dg.Failure(
            str(error),
            metadata={
                ERROR: next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == KeyfoldError.__module__)
            },
            allow_retries=not isinstance(error, _AGAIN),
        )
        # The author of a step needs its frames; of other errors the message says all.
        raise failure from (error.__cause__ if isinstance(error, StepFailed) else None)
