"""Make functions operators: refuse arguments that one does not have, and record those that it was called with.

An operator's signature takes the arguments of `KeyedJob` too, so that Python would blame that for an unknown one.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache, wraps
from types import GenericAlias, UnionType
from typing import Any, ParamSpec, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
from pydantic import InstanceOf

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.schemas import nearest
from keyfold.stream import Stream
from keyfold.validation import declaration

_Of = ParamSpec("_Of")

_SET_BY_OPERATORS = frozenset({"lookups", "model", "build", "operator", "row_times"})
"""Settings of `KeyedJob` that callers of an operator do not have."""

_IN_SEVERAL_FORMS = {Stream, pa.Schema}
"""Inputs and columns are converted, which says what is wrong with them."""


def operator(**lacks: str) -> Callable[[Callable[_Of, KeyedJob]], Callable[_Of, KeyedJob]]:
    """Make a function an operator, which takes its own arguments and, as `settings`, those that `KeyedJob` has for all jobs.

    The job has the operator's name and all its arguments (`KeyedJob.operator`): they are what its author declares, of which a
    generation keeps the fingerprint. An operator that calls another is the one that counts.

    Args:
        lacks: by argument that the operator cannot have, why not, and what to do instead.

    The operator raises:
        Misconfigured: an argument is unknown; names the nearest one, and all. Or it is not as its annotation says.
    """

    def decorate(function: Callable[_Of, KeyedJob]) -> Callable[_Of, KeyedJob]:
        signature = inspect.signature(function)

        @wraps(function)
        def declare(*args: _Of.args, **named: _Of.kwargs) -> KeyedJob:
            job = args[0] if args else named.get("name")
            for name, reason in lacks.items():
                if name in named:
                    raise Misconfigured(f"job {job}: {function.__name__} has no argument {name}, since {reason}")
            check_arguments(f"job {job}", function, named)
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            _checked(function)(**{name: bound.arguments[name] for name in signature.parameters if name != "settings"})
            return function(*args, **named).made_by(function, bound.arguments)

        return declare

    return decorate


@cache
def _checked(function: Callable[..., KeyedJob]) -> type:
    """Return a declaration of the arguments of an operator, which checks them by their annotations; nothing is converted."""
    # When it is first called: most imports need no job of this operator.
    hints = get_type_hints(function, include_extras=True)
    arguments = {name: hints[name] for name in inspect.signature(function).parameters if name != "settings"}
    annotations = {
        name: Any if _members(hint) & _IN_SEVERAL_FORMS else _by_instance(hint) for name, hint in arguments.items()
    }
    return declaration("job {name}")(type(function.__name__, (), {"__annotations__": annotations}))


def _members(hint: Any) -> set[Any]:
    return {hint}.union(*map(_members, get_args(hint))) if get_origin(hint) in (Union, UnionType) else {hint}


def _by_instance(hint: Any) -> Any:
    """Return an annotation in which a class stands for its instances, whatever its fields."""
    origin: Any = get_origin(hint)
    members = get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(map(_by_instance, members))]  # noqa: UP007 - of a number that is not known
    if origin in (Mapping, Sequence, tuple):
        return GenericAlias(origin, tuple(map(_by_instance, members)))
    is_value = inspect.isclass(hint) and origin is None and hint not in (str, int, float, bool, timedelta, type(None))
    return InstanceOf[hint] if is_value else hint


def check_arguments(
    place: str, called: Callable[..., Any], names: Iterable[str], positional: int = 0, also: Sequence[str] = ()
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
    parameters = [*also, *argument_names(called)[positional:]]
    for name in names:
        if name not in parameters:
            raise Misconfigured(f"{place}: {called.__name__} has no argument {name}{nearest(name, parameters)}")


def argument_names(called: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function or class; of an operator with the settings of `KeyedJob`."""
    parameters = inspect.signature(called).parameters.values()
    own = [of.name for of in parameters if of.kind not in (of.VAR_POSITIONAL, of.VAR_KEYWORD)]
    if len(own) == len(parameters):
        return own
    of_job = inspect.signature(KeyedJob).parameters.values()
    settings = [of.name for of in of_job if of.kind is of.KEYWORD_ONLY and of.name not in _SET_BY_OPERATORS]
    return own + [name for name in settings if name not in own]
