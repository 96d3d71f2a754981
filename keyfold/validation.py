"""Declare validated values: frozen dataclasses of pydantic, whose errors say where, which field, what it is, and what fits.

A field has the type that it holds. With `argument(converter=…)` it takes what the converter takes, such as `"30m"` for a duration, and type
checkers see both. Nothing else is coerced. A converter or validator raises ValueError: `Unfit` if the value is to be quoted.

    >>> from datetime import timedelta
    >>> @declaration("timeout of {name}")
    ... class Timeout:
    ...     name: str
    ...     after: timedelta = argument(converter=to_duration)
    >>> Timeout("visits", "90s").after
    datetime.timedelta(seconds=90)
    >>> Timeout("visits", "soon")
    Traceback (most recent call last):
    keyfold.errors.Misconfigured: timeout of visits: after is 'soon': write a number and s, m, h or d, such as 90s, 30m, 1.5h or 1d
    >>> Timeout("visits", aftr="90s")
    Traceback (most recent call last):
    keyfold.errors.Misconfigured: timeout of visits: Timeout has no argument aftr; did you mean after? There are name, after
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from keyfold.errors import Misconfigured, Unfit
from keyfold.schemas import nearest, to_names, to_schema
from keyfold.times import to_duration

__all__ = ["Record", "Unfit", "argument", "declaration", "optional", "to_duration", "validated"]

_Class = TypeVar("_Class", bound=type)
_Taken = TypeVar("_Taken")
_Held = TypeVar("_Held")
_Model = TypeVar("_Model", bound=BaseModel)
_Detail = Mapping[str, Any]
"""One error of pydantic."""
_CONVERTER, _FITS = "keyfold.converter", "keyfold.fits"
_NO_COERCION = ConfigDict(arbitrary_types_allowed=True, extra="forbid", strict=True)


class Record(BaseModel):
    """What Keyfold keeps in a file; one with unknown fields is refused."""

    # Built when the first one is read or made: definitions load without.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


@overload
def argument(
    *,
    converter: Callable[[_Taken], _Held],
    default: _Held = ...,
    default_factory: Callable[[], _Held] = ...,
    fits: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> _Held: ...


@overload
def argument(*, default: Any = ..., default_factory: Any = ..., fits: str = "", metadata: Any = None) -> Any: ...


def argument(*, converter: Any = None, fits: str = "", metadata: Any = None, **default: Any) -> Any:
    """Declare a field of a `declaration`.

    Args:
        converter: makes the value that the field holds of what is given, or raises ValueError.
        fits: what may be given, for errors, where the types do not say it.
        metadata: as of `dataclasses.field`.
        default: `default` or `default_factory`, of what the field holds.
    """
    of_keyfold = {_CONVERTER: converter, _FITS: fits}
    return dataclasses.field(**default, metadata={**(metadata or {}), **{k: v for k, v in of_keyfold.items() if v}})


def optional(converter: Callable[[_Taken], _Held]) -> Callable[[_Taken | None], _Held | None]:
    """Return a converter that leaves None as it is."""
    return lambda value: None if value is None else converter(value)


def never_null(columns: str, *, by: Sequence[str]) -> Any:
    """Make a validator that lets no column be NULL which other arguments name, in a dict of names and types: it cannot say so.

    Args:
        columns: the argument with the columns.
        by: the arguments with names of columns.
    """

    def prepare(arguments: ArgsKwargs) -> ArgsKwargs:
        named = dict(arguments.kwargs or {})
        if not isinstance(named.get(columns), Mapping):
            return arguments
        # What does not fit is the fault of its own argument, which says so.
        with suppress(ValueError):
            names = [name for argument in by for name in to_names(named.get(argument, ()))]
            named[columns] = to_schema(named[columns], names)
        return ArgsKwargs((), named)

    return model_validator(mode="before")(prepare)


@dataclass_transform(frozen_default=True, field_specifiers=(argument, dataclasses.field))
def declaration(context: str | Callable[[Mapping[str, Any]], str]) -> Callable[[_Class], _Class]:
    """Make a class a frozen dataclass whose fields are validated when it is made.

    Args:
        context: names the value in errors, with fields in braces; or makes that name of the arguments.

    The class raises:
        Misconfigured: an argument is unknown, missing, or does not fit.
    """

    def decorate(class_: _Class) -> _Class:
        hints = inspect.get_annotations(class_)
        for name, hint in hints.items():
            field = class_.__dict__.get(name)
            if isinstance(field, dataclasses.Field) and (converter := field.metadata.get(_CONVERTER)):
                hints[name] = Annotated[hint, BeforeValidator(converter)]
        class_.__annotations__ = hints
        declared: Any = dataclass(class_, frozen=True, config=_NO_COERCION)
        validate = declared.__init__
        fields = {field.name: field for field in dataclasses.fields(declared) if field.init}
        positional = [name for name, field in fields.items() if not field.kw_only]
        fits = {name: field.metadata.get(_FITS, "") for name, field in fields.items()}

        @wraps(validate)
        def init(self: Any, *args: Any, **named: Any) -> None:
            # By name, so that errors have names too. Of too many, and of one that is given twice, Python's error says enough.
            arguments = {**dict(zip(positional, args, strict=False)), **named}
            try:
                if len(arguments) == len(args) + len(named):
                    validate(self, **arguments)
                else:
                    validate(self, *args, **named)
            except ValidationError as error:
                faults = _faults(error, arguments, fits, f"{class_.__name__} has no argument")
                raise Misconfigured(f"{_named(context, arguments)}: {faults}") from None

        declared.__init__ = init
        return declared

    return decorate


def validated(
    model: type[_Model],
    values: Mapping[str, Any],
    context: str,
    *,
    noun: str = "argument",
    says: Callable[[str], str] = str,
    quotes: bool = True,
) -> _Model:
    """Return a model of values from outside, such as parameters of a run, whose errors are those of a declaration.

    Args:
        model: the model.
        values: its values, by field.
        context: names them in errors.
        noun: what a field is called.
        says: returns the name that a field has where the values come from.
        quotes: whether errors repeat a value, which may be a secret.

    Raises:
        Misconfigured: a value is unknown, missing, or does not fit.

    Example:
        >>> class Gap(BaseModel, extra="forbid"):
        ...     minutes: int = 30
        >>> validated(Gap, {"minuts": 5}, "job visits", noun="parameter")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: job visits: Gap has no parameter minuts; did you mean minutes? There are minutes
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fits = dict.fromkeys(model.model_fields, "")
        faults = _faults(error, values, fits, f"{model.__name__} has no {noun}", says, quotes=quotes)
        raise Misconfigured(f"{context}: {faults}" if context else faults) from None


def _named(context: str | Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]) -> str:
    if callable(context):
        return context(arguments)
    return re.sub(r"\{(\w+)\}", lambda name: str(arguments.get(name[1], "")), context).rstrip()


def _faults(
    error: ValidationError,
    values: Mapping[str, Any],
    fits: Mapping[str, str],
    unknown: str,
    says: Callable[[str], str] = str,
    *,
    quotes: bool = True,
) -> str:
    """Return what is wrong with each value; with unknown ones alone, if there are any."""
    details_of: dict[str, list[_Detail]] = {}
    for detail in cast(list[_Detail], error.errors(include_url=False)):
        details_of.setdefault(str(detail["loc"][0]) if detail["loc"] else "", []).append(detail)
    if names := [name for name in details_of if name and name not in fits]:
        return "; ".join(f"{unknown} {name}{nearest(name, list(fits))}" for name in names)
    return "; ".join(
        _fault(name and says(name), fits.get(name, ""), values.get(name), details, quotes=quotes)
        for name, details in details_of.items()
    )


def _fault(name: str, fits: str, value: Any, details: Sequence[_Detail], *, quotes: bool) -> str:
    detail = details[0]
    if detail["type"].startswith("missing"):
        return f"{name} is missing"
    # Keys of a mapping and indexes of a sequence; pydantic also names the members of a union.
    for step in detail["loc"][1:]:
        is_inside = isinstance(value, Mapping) and step in value
        if is_inside or (isinstance(value, Sequence) and isinstance(step, int)):
            name, value = f"{name}: {step}", value[step]
    shown = str(value) if isinstance(value, timedelta) else repr(value)
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, Unfit) and quotes:
        return f"{name} is {shown}: {raised}"
    if raised is not None:
        return f"{name}: {raised}" if name else str(raised)
    texts = dict.fromkeys(_FITTING.get(detail["type"], _by_type)(detail) for detail in details)
    fitting = fits or " or ".join(text for text in texts if text)
    return f"{name} is {shown}; it must be {fitting}" if quotes else f"{name} must be {fitting}"


def _by_type(detail: _Detail) -> str:
    return detail["msg"].removeprefix("Input should be ").removeprefix("a valid ")


_OF_CLASS = {
    "Aggregate": "an aggregate, such as count() or sum('cents')",
    "Expr": "an expression, such as pl.col('amount') > 3",
    "Sequence": "a list",
}
_FITTING: dict[str, Callable[[_Detail], str]] = {
    "is_instance_of": lambda detail: _OF_CLASS.get(detail["ctx"]["class"], f"of type {detail['ctx']['class']}"),
    "dataclass_exact_type": lambda detail: f"of type {detail['ctx']['class_name']}",
    "literal_error": lambda detail: f"one of {detail['ctx']['expected'].replace(' or ', ', ')}".replace("'", ""),
    "none_required": lambda _: "",
    "string_type": lambda _: "text",
    "bool_type": lambda _: "True or False",
    "int_type": lambda _: "a whole number",
    "callable_type": lambda _: "a function",
    "time_delta_type": lambda _: "a duration, such as '30m'",
    "tuple_type": lambda _: "a tuple",
    "mapping_type": lambda _: "a dict",
    "dict_type": lambda _: "a dict",
    "int_parsing": lambda _: "a whole number",
    "float_parsing": lambda _: "a number",
    "greater_than": lambda detail: f"more than {detail['ctx']['gt']}",
    "greater_than_equal": lambda detail: f"{detail['ctx']['ge']} or more",
    "less_than_equal": lambda detail: f"{detail['ctx']['le']} at most",
}
