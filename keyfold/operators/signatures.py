"""Make functions operators: refuse arguments that one does not have, and record those that it was called with.

An operator's signature takes the arguments of `KeyedJob` too, so that Python would blame that for an unknown one.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.schemas import nearest

_Of = ParamSpec("_Of")

_SET_BY_OPERATORS = frozenset({"lookups", "model", "build", "operator"})
"""Settings of `KeyedJob` that callers of an operator do not have."""


def operator(**lacks: str) -> Callable[[Callable[_Of, KeyedJob]], Callable[_Of, KeyedJob]]:
    """Make a function an operator, which takes its own arguments and, as `settings`, those that `KeyedJob` has for all jobs.

    The job has the operator's name and all its arguments (`KeyedJob.operator`): they are what its author declares, of which a
    generation keeps the fingerprint. An operator that calls another is the one that counts.

    Args:
        lacks: by argument that the operator cannot have, why not, and what to do instead.

    The operator raises:
        Misconfigured: an argument is unknown; names the nearest one, and all.
    """

    def decorate(function: Callable[_Of, KeyedJob]) -> Callable[_Of, KeyedJob]:
        signature = inspect.signature(function)

        @wraps(function)
        def declare(*given: _Of.args, **named: _Of.kwargs) -> KeyedJob:
            job = given[0] if given else named.get("name")
            for name, reason in lacks.items():
                if name in named:
                    raise Misconfigured(f"job {job}: {function.__name__} has no argument {name}, since {reason}")
            check_arguments(f"job {job}", function, named)
            made = function(*given, **named)
            arguments = signature.bind(*given, **named)
            arguments.apply_defaults()
            return made.made_by(function, arguments.arguments)

        return declare

    return decorate


def check_arguments(
    where: str, called: Callable[..., Any], names: Iterable[str], positional: int = 0, also: Sequence[str] = ()
) -> None:
    """Check that a function or class has arguments of these names.

    Args:
        where: what the arguments are of, for the error.
        called: an operator, or any other function or class.
        names: the names that are given.
        positional: the number of arguments that are given by position.
        also: other names that may be given.

    Raises:
        Misconfigured: it has not; names the nearest one, and all.

    Example:
        >>> from keyfold.operators import windows
        >>> check_arguments("job clicks", windows, ["lenght"])
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: job clicks: windows has no argument lenght; did you mean length? There are ...
    """
    known = [*also, *argument_names(called)[positional:]]
    for name in names:
        if name not in known:
            raise Misconfigured(f"{where}: {called.__name__} has no argument {name}{nearest(name, known)}")


def argument_names(called: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function or class; of an operator with the settings of `KeyedJob`."""
    parameters = inspect.signature(called).parameters.values()
    own = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if len(own) == len(parameters):
        return own
    of_job = inspect.signature(KeyedJob).parameters.values()
    settings = [one.name for one in of_job if one.kind is one.KEYWORD_ONLY and one.name not in _SET_BY_OPERATORS]
    return own + [name for name in settings if name not in own]
