"""Read the arguments of an operator from YAML, each by the type that the operator's signature gives it.

| asked for | in YAML |
|---|---|
| an expression | text: SQL of Polars |
| aggregates | texts by column: `count`, `sum(cents)`, `quantile(cents, 0.9)` |
| a stream | text: its path below `defs`, or `module:NAME`; or the arguments of `Input`, and `where`, `derive` and `explode`: `{stream: orders, delay: 5m}` |
| a duration | text: `1h` |
| columns | a list such as `{name: shop, type: string, required: true}`, or a mapping of names to types |
| a table | `{name: closed, columns: {shop: string}}`, with `key: shop` if it is updated in place |
| another value | its arguments: `gap: {after: 1h}`; where there are several kinds, its kind too: `{Next: {condition: …}}` |
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import timedelta
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import dagster as dg
import polars as pl
import pyarrow as pa

from keyfold import operators
from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.tables import Append, OutputTable, Upsert
from keyfold.operators import Aggregate
from keyfold.operators.signatures import check_arguments
from keyfold.state.rows.sql_expressions import sql_expression
from keyfold.stream import TIMESTAMP, Stream
from keyfold.stream.refined import Refined
from keyfold.times import as_duration

TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_FUNCTIONS = {
    name: getattr(operators, name) for name in operators.__all__ if inspect.isfunction(getattr(operators, name))
}
AGGREGATES = {
    name: function for name, function in _FUNCTIONS.items() if get_type_hints(function)["return"] is Aggregate
}
_JOBS = {
    name: hints for name, function in _FUNCTIONS.items() if (hints := get_type_hints(function))["return"] is KeyedJob
}
OPERATORS = {
    name: _FUNCTIONS[name]
    for name, hints in _JOBS.items()
    # What takes a function is for Python.
    if all(get_origin(hint) is not Callable for hint in hints.values())
}

_CALL = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_WITH_NUMBER = re.compile(r"(.*),\s*(\d+(?:\.\d+)?)\s*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_BY_TEXT = (Stream, str, pl.Expr, timedelta, pa.DataType)
"""What a text is taken for, where a signature admits several."""


class Column(dg.Model, dg.Resolvable):
    """A column."""

    name: str
    type: Literal["string", "int64", "double", "bool", "date", "timestamp"]
    description: str = ""
    required: bool = False


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema(
        [
            column(
                definition.name,
                TYPES[definition.type],
                definition.description or definition.name,
                nullable=not definition.required,
            )
            for definition in columns
        ]
    )


class Arguments:
    """Reads arguments.

    Args:
        find: returns the stream at a path.
    """

    def __init__(self, find: Callable[[str], Stream]) -> None:
        self._find = find

    def call(
        self, context: str, called: Callable[..., Any], arguments: Mapping[str, Any], *others: Any, **settings: Any
    ) -> Any:
        """Call a function or class with arguments of YAML, and with others as they are.

        Raises:
            KeyfoldError: an argument is missing, unknown, or not of its type.
        """
        check_arguments(context, called, arguments, len(others))
        hints = get_type_hints(KeyedJob) | get_type_hints(called, localns={"pa": pa, "pl": pl})
        read = {
            name: self._read(f"{context}: {name}", hints.get(name, Any), value) for name, value in arguments.items()
        }
        try:
            return called(*others, **read, **settings)
        except (TypeError, ValueError) as error:
            raise Misconfigured(f"{context}: {error}") from error

    def input(self, context: str, arguments: Mapping[str, Any]) -> Input:
        """Read the input of a stream, which `where`, `derive` and `explode` refine as its methods do.

        Raises:
            KeyfoldError: an argument is missing, unknown, or not of its type.
        """
        check_arguments(context, Input, arguments, positional=1, also=("stream", "where", "derive", "explode"))
        remaining = dict(arguments)
        source: Stream | Refined = self._find(_a(str, f"{context}: stream", remaining.pop("stream", None)))
        if (condition := remaining.pop("where", None)) is not None:
            source = source.where(self._read(f"{context}: where", pl.Expr, condition))
        if (columns := remaining.pop("derive", None)) is not None:
            source = source.derive(**self._read(f"{context}: derive", Mapping[str, pl.Expr], columns))
        if (lists := remaining.pop("explode", None)) is not None:
            source = self.call(f"{context}: explode", source.explode, _a(dict, f"{context}: explode", lists))
        return self.call(context, Input, remaining, source)

    def _read(self, context: str, hint: Any, value: Any) -> Any:
        origin, of = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._read_one_of(context, of, value)
        if origin is not None:
            return self._read_many(context, origin, of, value)
        if hint is Stream:
            return self._find(_a(str, context, value))
        if hint is pa.Schema:
            definitions = (
                [{"name": name, "type": kind} for name, kind in value.items()] if isinstance(value, dict) else value
            )
            return schema_of([_a_column(context, definition) for definition in _a(list, context, definitions)])
        if hint is OutputTable:
            hint = Upsert if "key" in _a(dict, context, value) else Append
        if inspect.isfunction(hint) or _is_value(hint):
            arguments = _a(dict, context, value)
            return self.input(context, arguments) if hint is Input else self.call(context, hint, arguments)
        return _of_text(context, hint, value)

    def _read_many(self, context: str, origin: Any, of: Sequence[Any], value: Any) -> Any:
        if origin is Mapping:
            return {
                name: self._read(f"{context}: {name}", of[1], item) for name, item in _a(dict, context, value).items()
            }
        if origin is Callable:
            raise Misconfigured(f"{context} is a function, which YAML does not have: write the job in Python")
        if origin not in (tuple, Sequence):
            return value
        if origin is tuple and of[-1] is not ...:
            return tuple(self._read(context, *pair) for pair in zip(of, _a(list, context, value), strict=False))
        read = [self._read(context, of[0], item) for item in _a(list, context, value)]
        return tuple(read) if origin is tuple else read

    def _read_one_of(self, context: str, hints: Sequence[Any], value: Any) -> Any:
        classes = [kind for kind in hints if _is_value(kind)]
        if isinstance(value, str):
            hint = next((kind for kind in _BY_TEXT if kind in hints), Any)
        elif isinstance(value, list):
            sequences = [kind for kind in hints if get_origin(kind) in (tuple, Sequence)]
            of_texts = [
                kind for kind in sequences if get_args(kind)[0] is str and all(isinstance(item, str) for item in value)
            ]
            hint = next(iter(of_texts or ([pa.Schema] if pa.Schema in hints else sequences)), Any)
        elif not isinstance(value, dict):
            hint = Any
        elif Input in classes:
            hint = Input
        elif len(classes) > 1:
            by_name = {kind.__name__: kind for kind in classes}
            if len(value) != 1 or not value.keys() <= by_name.keys():
                raise Misconfigured(f"{context} is {value!r}; name one of {', '.join(by_name)}, with its arguments")
            ((name, value),) = value.items()
            hint = by_name[name]
        else:
            hint = next(iter([*classes, *(kind for kind in hints if get_origin(kind) is Mapping)]), Any)
        return self._read(context, hint, value)


def _is_value(hint: Any) -> bool:
    return inspect.isclass(hint) and hint is not Aggregate and (is_dataclass(hint) or hasattr(hint, "_fields"))


def _a_column(context: str, value: Any) -> Column:
    try:
        return Column.model_validate(value)
    except ValueError as error:
        raise Misconfigured(f"{context}: {error}") from error


def _a(kind: type, context: str, value: Any) -> Any:
    if not isinstance(value, kind):
        said = {dict: "a mapping", list: "a list", str: "a text"}[kind]
        raise Misconfigured(f"{context} is {value!r}; give {said}")
    return value


def _of_text(context: str, hint: Any, value: Any) -> Any:
    if hint is pl.Expr:
        return _expression(context, value) if isinstance(value, str) else pl.lit(value)
    if hint is Aggregate:
        return _aggregate(context, _a(str, context, value))
    if hint is timedelta:
        return as_duration(context, _a(str, context, value))
    if hint is pa.DataType:
        if value not in TYPES:
            raise Misconfigured(f"{context} is {value!r}; give one of {', '.join(TYPES)}")
        return TYPES[value]
    return value


def _aggregate(context: str, text: str) -> Aggregate:
    match = _CALL.fullmatch(text.strip())
    if match is None or match[1] not in AGGREGATES:
        raise Misconfigured(f"{context} is {text!r}; give one of {', '.join(AGGREGATES)}, such as count or sum(cents)")
    function, value, others = AGGREGATES[match[1]], (match[2] or "").strip(), []
    hints = list(get_type_hints(function).values())
    with_number = _WITH_NUMBER.fullmatch(value)
    if with_number and hints[1] in (int, float):
        value, others = with_number[1].strip(), [hints[1](with_number[2])]
    values = [_expression(context, value), *others] if value else []
    try:
        return function(*values)
    except (TypeError, ValueError, Misconfigured) as error:
        raise Misconfigured(f"{context}: {error}") from error


def _expression(context: str, text: str) -> pl.Expr:
    try:
        # SQL would not find a column in its own case.
        return pl.col(text) if _NAME.fullmatch(text) else sql_expression(context, text)
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{context}: {text!r} is no SQL of Polars: {error}") from None
