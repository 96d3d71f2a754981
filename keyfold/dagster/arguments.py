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
AGGREGATES = {name: one for name, one in _FUNCTIONS.items() if get_type_hints(one)["return"] is Aggregate}
_JOBS = {name: hints for name, one in _FUNCTIONS.items() if (hints := get_type_hints(one))["return"] is KeyedJob}
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
        [column(one.name, TYPES[one.type], one.description or one.name, nullable=not one.required) for one in columns]
    )


class Arguments:
    """Reads arguments.

    Args:
        find: returns the stream at a path.
    """

    def __init__(self, find: Callable[[str], Stream]) -> None:
        self._find = find

    def call(
        self, where: str, called: Callable[..., Any], given: Mapping[str, Any], *others: Any, **settings: Any
    ) -> Any:
        """Call a function or class with arguments of YAML, and with others as they are.

        Raises:
            KeyfoldError: an argument is missing, unknown, or not of its type.
        """
        check_arguments(where, called, given, len(others))
        hints = get_type_hints(KeyedJob) | get_type_hints(called, localns={"pa": pa, "pl": pl})
        read = {name: self._read(f"{where}: {name}", hints.get(name, Any), value) for name, value in given.items()}
        try:
            return called(*others, **read, **settings)
        except (TypeError, ValueError) as error:
            raise Misconfigured(f"{where}: {error}") from error

    def input(self, where: str, given: Mapping[str, Any]) -> Input:
        """Read the input of a stream, which `where`, `derive` and `explode` refine as its methods do.

        Raises:
            KeyfoldError: an argument is missing, unknown, or not of its type.
        """
        check_arguments(where, Input, given, positional=1, also=("stream", "where", "derive", "explode"))
        others = dict(given)
        source: Stream | Refined = self._find(_a(str, f"{where}: stream", others.pop("stream", None)))
        if (condition := others.pop("where", None)) is not None:
            source = source.where(self._read(f"{where}: where", pl.Expr, condition))
        if (columns := others.pop("derive", None)) is not None:
            source = source.derive(**self._read(f"{where}: derive", Mapping[str, pl.Expr], columns))
        if (lists := others.pop("explode", None)) is not None:
            source = self.call(f"{where}: explode", source.explode, _a(dict, f"{where}: explode", lists))
        return self.call(where, Input, others, source)

    def _read(self, where: str, hint: Any, value: Any) -> Any:
        origin, of = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._read_one_of(where, of, value)
        if origin is not None:
            return self._read_many(where, origin, of, value)
        if hint is Stream:
            return self._find(_a(str, where, value))
        if hint is pa.Schema:
            given = [{"name": name, "type": kind} for name, kind in value.items()] if isinstance(value, dict) else value
            return schema_of([_a_column(where, one) for one in _a(list, where, given)])
        if hint is OutputTable:
            hint = Upsert if "key" in _a(dict, where, value) else Append
        if inspect.isfunction(hint) or _is_value(hint):
            given = _a(dict, where, value)
            return self.input(where, given) if hint is Input else self.call(where, hint, given)
        return _of_text(where, hint, value)

    def _read_many(self, where: str, origin: Any, of: Sequence[Any], value: Any) -> Any:
        if origin is Mapping:
            return {name: self._read(f"{where}: {name}", of[1], one) for name, one in _a(dict, where, value).items()}
        if origin is Callable:
            raise Misconfigured(f"{where} is a function, which YAML does not have: write the job in Python")
        if origin not in (tuple, Sequence):
            return value
        if origin is tuple and of[-1] is not ...:
            return tuple(self._read(where, *pair) for pair in zip(of, _a(list, where, value), strict=False))
        read = [self._read(where, of[0], one) for one in _a(list, where, value)]
        return tuple(read) if origin is tuple else read

    def _read_one_of(self, where: str, hints: Sequence[Any], value: Any) -> Any:
        values = [one for one in hints if _is_value(one)]
        if isinstance(value, str):
            hint = next((one for one in _BY_TEXT if one in hints), Any)
        elif isinstance(value, list):
            sequences = [one for one in hints if get_origin(one) in (tuple, Sequence)]
            of_texts = [
                one for one in sequences if get_args(one)[0] is str and all(isinstance(each, str) for each in value)
            ]
            hint = next(iter(of_texts or ([pa.Schema] if pa.Schema in hints else sequences)), Any)
        elif not isinstance(value, dict):
            hint = Any
        elif Input in values:
            hint = Input
        elif len(values) > 1:
            kinds = {one.__name__: one for one in values}
            if len(value) != 1 or not value.keys() <= kinds.keys():
                raise Misconfigured(f"{where} is {value!r}; name one of {', '.join(kinds)}, with its arguments")
            ((kind, value),) = value.items()
            hint = kinds[kind]
        else:
            hint = next(iter([*values, *(one for one in hints if get_origin(one) is Mapping)]), Any)
        return self._read(where, hint, value)


def _is_value(hint: Any) -> bool:
    return inspect.isclass(hint) and hint is not Aggregate and (is_dataclass(hint) or hasattr(hint, "_fields"))


def _a_column(where: str, value: Any) -> Column:
    try:
        return Column.model_validate(value)
    except ValueError as error:
        raise Misconfigured(f"{where}: {error}") from error


def _a(kind: type, where: str, value: Any) -> Any:
    if not isinstance(value, kind):
        said = {dict: "a mapping", list: "a list", str: "a text"}[kind]
        raise Misconfigured(f"{where} is {value!r}; give {said}")
    return value


def _of_text(where: str, hint: Any, value: Any) -> Any:
    if hint is pl.Expr:
        return _expression(where, value) if isinstance(value, str) else pl.lit(value)
    if hint is Aggregate:
        return _aggregate(where, _a(str, where, value))
    if hint is timedelta:
        return as_duration(where, _a(str, where, value))
    if hint is pa.DataType:
        if value not in TYPES:
            raise Misconfigured(f"{where} is {value!r}; give one of {', '.join(TYPES)}")
        return TYPES[value]
    return value


def _aggregate(where: str, text: str) -> Aggregate:
    found = _CALL.fullmatch(text.strip())
    if found is None or found[1] not in AGGREGATES:
        raise Misconfigured(f"{where} is {text!r}; give one of {', '.join(AGGREGATES)}, such as count or sum(cents)")
    function, value, others = AGGREGATES[found[1]], (found[2] or "").strip(), []
    hints = list(get_type_hints(function).values())
    with_number = _WITH_NUMBER.fullmatch(value)
    if with_number and hints[1] in (int, float):
        value, others = with_number[1].strip(), [hints[1](with_number[2])]
    values = [_expression(where, value), *others] if value else []
    try:
        return function(*values)
    except (TypeError, ValueError, Misconfigured) as error:
        raise Misconfigured(f"{where}: {error}") from error


def _expression(where: str, text: str) -> pl.Expr:
    try:
        # SQL would not find a column in its own case.
        return pl.col(text) if _NAME.fullmatch(text) else sql_expression(where, text)
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{where}: {text!r} is no SQL of Polars: {error}") from None
