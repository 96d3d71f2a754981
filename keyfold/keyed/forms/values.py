"""The canonical form of what an author gives to a job: JSON, in which the same declaration is the same, however it is written.

Durations are in one unit, a name is a list of one name, columns are by name and type, and mappings and sets are sorted. An object
has its class in `$` and the fields that are not as by default; one that a function made (`MadeByCall`) has the function's name and
the arguments that are not as by default. A function is `{"$": "code", "of": label}`: its code is kept apart
(`Forms.functions`), since a job may go on with other code.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import FunctionType, MethodType
from typing import Any, get_args, get_type_hints
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
from pydantic import BaseModel

from keyfold.errors import Misconfigured
from keyfold.keyed.forms.expressions import expression_tree, plain_values
from keyfold.keyed.forms.types import type_text
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.lookups import Lookup
from keyfold.keyed.job.operator_call import KEEPS_ORDER, MadeByCall, OperatorCall
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job.timeouts import Timeout
from keyfold.schemas import declared_schema
from keyfold.stream import JobTable, Stream
from keyfold.stream.refined import Refined
from keyfold.times import duration_text, in_utc, parsed_duration

Form = Any
"""A canonical form: what JSON can hold."""


class Forms:
    """Makes canonical forms, and collects the functions in them, by label, and the defaults of objects, by class and field."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.defaults: dict[str, dict[str, Form]] = {}

    def of(self, label: str, value: Any, hint: Any = None) -> Form:
        """Return the form of a value.

        Args:
            label: names the value, for the functions in it.
            value: the value.
            hint: the annotation of the parameter or field that has it.

        Example:
            >>> Forms().of("gap", "90m", timedelta | str), Forms().of("key", "user", str | Sequence[str])
            ({'$': 'duration', 'of': '90m'}, ['user'])
        """
        value = _alike(value, hint)
        for kinds, form in self._kinds:
            if isinstance(value, kinds):
                return form(label, value)
        return self._object(label, value)

    @property
    def _kinds(self) -> Sequence[tuple[Any, Callable[[str, Any], Form]]]:
        return (
            (Enum, lambda label, value: self.of(label, value.value)),
            ((type(None), bool, int, str), lambda _, value: value),
            (float, lambda _, value: plain_values(pl.Series([value]))[0]),
            (timedelta, lambda _, value: _named("duration", duration_text(value))),
            (datetime, lambda _, value: _named("time", (in_utc(value) if value.tzinfo else value).isoformat())),
            (date, lambda _, value: _named("date", value.isoformat())),
            (time, lambda _, value: _named("time", value.isoformat())),
            (Decimal, lambda _, value: _named("decimal", str(value))),
            (PurePath, lambda _, value: _named("path", value.as_posix())),
            (ZoneInfo, lambda _, value: _named("zone", value.key)),
            (bytes, lambda _, value: _named("bytes", value.hex())),
            (pl.Expr, lambda label, value: _named("expression", expression_tree(value, self._label_of(label)))),
            (pl.Series, lambda _, value: _named("series", [type_text(value.dtype), plain_values(value)])),
            (pl.DataFrame, lambda label, value: _named("frame", self.of(label, dict(value.to_dict())))),
            (pl.DataType, lambda _, value: _named("type", type_text(value))),
            (pa.DataType, lambda _, value: _named("type", str(value))),
            (pa.Schema, lambda _, value: _named("columns", columns_form(value))),
            (pa.Field, lambda _, value: _named("columns", columns_form(pa.schema([value])))),
            (Input, self.input),
            ((Stream, JobTable, Refined), lambda label, value: self.input(label, Input(value))),
            (OutputTable, self._table),
            (Lookup, lambda _, value: {"key": list(value.key), "columns": columns_form(value.columns)}),
            (BaseModel, lambda label, value: self.of(label, value.model_dump())),
            (Mapping, self._mapping),
            (
                Set,
                lambda label, value: _named("set", sorted((self.of(label, item) for item in value), key=text_to_sort)),
            ),
        )

    def input(self, label: str, input_: Input) -> Form:
        """Return the form of an input as its author gave it: what it reads, and which rows and columns of that."""
        refined = input_.refined
        final = input_.final_at
        shown: dict[str, Any] = {
            "table": input_.table,
            "where": refined.condition,
            "derive": dict(refined.derived),
            "explode": refined.exploded,
            "final_at": pl.col(final) if isinstance(final, str) else final,
            "columns": sorted(input_.columns) if isinstance(input_.columns, tuple) else input_.columns,
            "conserved": input_.conserved,
            "combine": input_.combine,
            "events": input_.events,
            "computed": dict(input_.computed),
        }
        there = {name: value for name, value in shown.items() if value is not None and not _is_empty(value)}
        return {name: self.of(f"{label}.{name}", value) for name, value in there.items()}

    def _table(self, label: str, table: OutputTable) -> Form:
        return {
            "name": table.name,
            "mode": table.mode,
            "key": list(table.key),
            "columns": columns_form(table.schema),
            "events": self.of(f"{label}.events", table.events),
            "changes": table.changes,
        }

    def _mapping(self, label: str, value: Mapping[Any, Any]) -> Form:
        if all(isinstance(key, str) and key != "$" for key in value):
            return {key: self.of(f"{label}.{key}" if label else key, value[key]) for key in sorted(value)}
        pairs = [[self.of(label, key), self.of(label, item)] for key, item in value.items()]
        return _named("mapping", sorted(pairs, key=text_to_sort))

    def _object(self, label: str, value: Any) -> Form:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            named = dict(zip(value._fields, value, strict=True))  # type: ignore[attr-defined]
            return {"$": type(value).__name__, **self._mapping(label, named)}
        if isinstance(value, Sequence):
            return [self.of(label, item) for item in value]
        if isinstance(value, type) and issubclass(value, pl.DataType):
            return _named("type", type_text(value))
        own = value.func if isinstance(value, partial) else value
        if _is_ours(own if callable(own) else type(own)):
            return self._of_keyfold(label, value)
        return _named("code", self._label_of(label)(value))

    def _of_keyfold(self, label: str, value: Any) -> Form:
        """Return the form of an object of Keyfold's: what it was made with, since its code is not the author's."""
        within: dict[str, Any] = {}
        if isinstance(value, MadeByCall) and value.call is not None:
            return _named("call", [value.call.name, self._arguments(label, value.call)])
        if isinstance(value, MethodType):
            name, within = value.__name__, {"self": value.__self__}
        elif isinstance(value, partial):
            name, within = value.func.__qualname__, {"args": list(value.args), **value.keywords}
        elif isinstance(value, FunctionType):
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            name, within = value.__qualname__, {name: cell.cell_contents for name, cell in cells}
        elif is_dataclass(value) and not isinstance(value, type):
            return self._fields(label, value)
        else:
            name = getattr(value, "__qualname__", type(value).__qualname__)
            within = {} if isinstance(value, type) else dict(getattr(value, "__dict__", {}))
        return {"$": name, **self._mapping(label, within)}

    def _arguments(self, label: str, call: OperatorCall) -> dict[str, Form]:
        forms = {}
        for name, parameter in inspect.signature(call.function).parameters.items():
            hint = call.hints.get(name)
            form = self.of(f"{label}.{name}", call.arguments[name], hint)
            if parameter.default is parameter.empty or form != Forms().of("", parameter.default, hint):
                forms[name] = form
        return forms

    def _fields(self, label: str, value: Any) -> Form:
        hints = _hints(type(value))
        form: dict[str, Any] = {"$": type(value).__name__}
        for field in (declared for declared in fields(value) if declared.init):
            content, hint = getattr(value, field.name), hints.get(field.name)
            if KEEPS_ORDER in field.metadata:
                content = list(content.items())
            shown, default = self.of(f"{label}.{field.name}", content, hint), Forms().of("", _default_of(field), hint)
            if field.default is not MISSING or field.default_factory is not MISSING:
                self.defaults.setdefault(type(value).__name__, {})[field.name] = default
            if shown != default:
                form[field.name] = shown
        return form

    def _label_of(self, label: str) -> Callable[[Any], str]:
        def labelled(function: Any) -> str:
            number = sum(name == label or name.startswith(f"{label} (") for name in self.functions)
            unique = f"{label} ({number + 1})" if number else label
            self.functions[unique] = function
            return unique

        return labelled


def columns_form(schema: pa.Schema) -> dict[str, str]:
    """Return the form of columns: types as text by name. Meanings and units do not count.

    Example:
        >>> columns_form(pa.schema([pa.field("user", pa.string(), nullable=False), ("n", pa.int64())]))
        {'user': 'string not null', 'n': 'int64'}
    """
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def text_to_sort(form: Form) -> str:
    """Return a form as a text, which is the same for equal forms."""
    return json.dumps(form, sort_keys=True)


def _named(kind: str, of: Any) -> dict[str, Any]:
    return {"$": kind, "of": of}


def _is_empty(value: Any) -> bool:
    return isinstance(value, Mapping) and not value


def _alike(value: Any, hint: Any) -> Any:
    """Return a value in one of the ways in which it can be given."""
    ways = get_args(hint) or (hint,)
    if isinstance(value, str) and timedelta in ways:
        with suppress(ValueError):
            value = parsed_duration(value) or value
    if isinstance(value, str) and pl.Expr in ways:
        value = pl.col(value)
    if isinstance(value, timedelta) and Timeout in ways:
        value = Timeout(value)
    if isinstance(value, str) and any(getattr(way, "__origin__", None) is Sequence for way in ways):
        value = [value]
    if pa.Schema in ways and value is not None:
        with suppress(Misconfigured):
            # Whether one may be NULL follows from the job's key, and is in its tables.
            value = pa.schema([field.with_nullable(True) for field in declared_schema("columns", value)])
    return value


def _default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return _NO_DEFAULT if field.default_factory is MISSING else field.default_factory()


class _NoDefault:
    """Stands for no default: no value has its form."""


_NO_DEFAULT = _NoDefault()


def _hints(of: Any) -> dict[str, Any]:
    try:
        return get_type_hints(of)
    except (NameError, TypeError):
        return {}


def _is_ours(of: Any) -> bool:
    return (getattr(of, "__module__", None) or "").partition(".")[0] == "keyfold"
