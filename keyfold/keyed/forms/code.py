"""The code of a function: its source, and the functions, classes and constants of the project that it uses, also indirectly.

Comments, docstrings, annotations and formatting do not count, nor do the names of modules: moved code is the same code. Values
of closures and of partial functions count, but for fields that belong to a place and not to the code, such as the address of a
service: those of Pydantic's models with `exclude=True`, and those of dataclasses with `compare=False`. Of an installed package
only the name counts, of which the function is.
"""

import dataclasses
import importlib
import json
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import xxhash
from pydantic import BaseModel

from keyfold.keyed.forms.expressions import expression_tree, plain_values
from keyfold.keyed.forms.source_trees import imports_in, names_in, normalized, stripped, text_of, tree_of
from keyfold.keyed.forms.types import type_text

_NO_PROJECTS = {
    "dagster", "deltalake", "keyfold", "numpy", "pandas", "polars", "polars_hash", "pyarrow", "pydantic", "pyspark", "xxhash",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Code:
    """The code of a function.

    Attributes:
        digest: of all that counts.
        parts: a digest of each line of the functions and classes, and of each constant, by name. Not the text: a record of
            them is kept, and code may have secrets.
    """

    digest: str
    parts: Mapping[str, tuple[str, ...]]


def code_of(function: Any) -> Code:
    """Return the code of a function, or of an object that can be called.

    Example:
        >>> code_of(lambda x: x + 1).digest == code_of(lambda x: (x +  1)).digest
        True
    """
    reader = _Reader()
    form = reader.form(function)
    return Code(_digest(form), reader.parts)


def _digest(form: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(form, sort_keys=True, separators=(",", ":")).encode())


class _Reader:
    """Reads a function with all that it uses."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[str, ...]] = {}
        # With the values themselves, so that no other value gets the identity of one that is gone.
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._forms: dict[int, tuple[Any, Any]] = {}
        self._package = ""

    def form(self, value: Any) -> Any:
        """Return the form of a value that code uses."""
        if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
            return value
        if isinstance(value, float | complex):
            return ["number", repr(value)]
        if isinstance(value, FunctionType | type):
            # Numbered in order, so that functions which call each other have an end.
            if id(value) in self._numbers:
                return ["seen", self._numbers[id(value)][0]]
            self._numbers[id(value)] = len(self._numbers), value
            return self._callable(value)
        if id(value) not in self._forms:
            self._forms[id(value)] = ["within itself"], value
            form = self._callable(value) if callable(value) else self._value(value)
            self._forms[id(value)] = form, value
        return self._forms[id(value)][0]

    def _callable(self, value: Any) -> Any:
        if isinstance(value, partial):
            return ["partial", *(self.form(part) for part in (value.func, list(value.args), value.keywords))]
        if isinstance(value, MethodType):
            return ["method", value.__name__, self.form(value.__self__), self.form(value.__func__)]
        if not isinstance(value, type) and hasattr(value, "__wrapped__"):
            return ["wrapped", self.form(value.__wrapped__)]
        if isinstance(value, FunctionType | type) and self._is_of_project(value):
            return self._class(value) if isinstance(value, type) else self._function(value)
        name = getattr(value, "__qualname__", getattr(value, "__name__", None))
        # An object with a name is a function of an extension module.
        is_named = isinstance(name, str) and not self._is_of_project(type(value))
        return ["installed", f"{getattr(value, '__module__', '')}.{name}"] if is_named else self._value(value)

    def _function(self, function: FunctionType) -> Any:
        tree, code = tree_of(function), function.__code__
        if tree is None:
            # Without its source, as of a console: what Python made of it.
            self._record(function.__name__, code.co_code.hex())
            names = [(name,) for name in code.co_names]
            body: Any = [
                "bytecode",
                code.co_code.hex(),
                [repr(constant) for constant in code.co_consts if type(constant) is not type(code)],
            ]
        else:
            plain = stripped(tree)
            self._record(function.__name__, text_of(plain))
            names, body = [*names_in(plain)], normalized(plain)
        imported = self._imported(tree, function.__globals__)
        closed = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        return [
            "function",
            body,
            {name: self._constant(name, cell.cell_contents) for name, cell in closed.items() if _has_content(cell)},
            [self.form(default) for default in function.__defaults__ or ()],
            self.form(function.__kwdefaults__),
            self._used(names, {**function.__globals__, **imported}, set(code.co_varnames) - imported.keys()),
        ]

    def _class(self, kind: type) -> Any:
        tree = tree_of(kind)
        if tree is None:
            return [
                "class",
                {name: self.form(method) for name, method in vars(kind).items() if isinstance(method, FunctionType)},
            ]
        plain = stripped(tree)
        self._record(kind.__name__, text_of(plain))
        variables = vars(sys.modules[kind.__module__])
        bases = [self.form(base) for base in kind.__bases__ if base is not object]
        return ["class", normalized(plain), bases, self._used([*names_in(plain)], variables, set())]

    def _used(self, names: list[tuple[str, ...]], variables: Mapping[str, Any], local: set[str]) -> dict[str, Any]:
        """Return the forms of the global names that code uses; of a module of the project, those of what is taken from it."""
        used: dict[str, Any] = {}
        for name, *attributes in sorted(set(names)):
            if name in local or name not in variables:
                continue
            value, path = variables[name], name
            while attributes and self._is_own_module(value) and hasattr(value, attributes[0]):
                path = attributes.pop(0)
                value = getattr(value, path)
            used[path] = self._constant(path, value)
        return used

    def _imported(self, tree: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a function imports itself, by the name that it has there."""
        imported: dict[str, Any] = {}
        for module, name, level, as_name in imports_in(tree) if tree is not None else ():
            full = f"{variables.get('__package__') or ''}.{module}" if level else module
            if not self._is_of_project_module(full.partition(".")[0]):
                # By its name, and not imported here: that may take long.
                imported[as_name] = ("installed", module, name)
                continue
            with suppress(ImportError):
                loaded = importlib.import_module("." * level + module, variables.get("__package__"))
                imported[as_name] = getattr(loaded, name, None) if name else loaded
        return imported

    def _constant(self, name: str, value: Any) -> Any:
        form = self.form(value)
        # Functions and classes have recorded themselves.
        if not callable(value) and not isinstance(value, ModuleType):
            self.parts.setdefault(name, (_digest(form)[:8],))
        return form

    def _record(self, name: str, text: str) -> None:
        lines = tuple(xxhash.xxh3_64_hexdigest(line.encode())[:8] for line in text.splitlines())
        number = 2
        unique = name
        while unique in self.parts:
            unique, number = f"{name} ({number})", number + 1
        self.parts[unique] = lines

    def _value(self, value: Any) -> Any:
        form = next((form for kinds, form in self._kinds if isinstance(value, kinds)), self._other)
        return form(value)

    @property
    def _kinds(self) -> Sequence[tuple[Any, Callable[[Any], Any]]]:
        return (
            (pl.Expr, lambda value: ["expression", expression_tree(value, lambda _: ""), self._of_expression(value)]),
            (Enum, lambda value: ["member", value.name]),
            (ModuleType, lambda value: ["module", "" if self._is_own_module(value) else value.__name__]),
            (Mapping, lambda value: ["mapping", self._sorted([[key, item] for key, item in value.items()])]),
            ((set, frozenset), lambda value: ["set", self._sorted(value)]),
            ((list, tuple), lambda value: ["sequence", [self.form(item) for item in value]]),
            ((bytes, bytearray), lambda value: ["bytes", bytes(value).hex()]),
            (np.ndarray, lambda value: ["array", str(value.dtype), value.shape, self.form(value.tolist())]),
            (pl.Series, lambda value: ["series", type_text(value.dtype), plain_values(value)]),
            (pl.DataFrame, lambda value: ["frame", {column.name: self.form(column) for column in value.get_columns()}]),
            (pl.DataType, lambda value: ["type", type_text(value)]),
            ((pa.Schema, pa.Field, pa.DataType), lambda value: ["arrow", str(value)]),
            (re.Pattern, lambda value: ["pattern", value.pattern, value.flags]),
            (BaseModel, lambda value: ["object", self.form(type(value)), self.form(value.model_dump(mode="json"))]),
        )

    def _sorted(self, values: Iterable[Any]) -> list[Any]:
        return sorted((self.form(item) for item in values), key=lambda form: json.dumps(form, sort_keys=True))

    def _other(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            fields = {
                field.name: getattr(value, field.name, None) for field in dataclasses.fields(value) if field.compare
            }
            return ["object", self.form(type(value)), {name: self.form(field) for name, field in fields.items()}]
        if type(value).__module__ in _BY_TEXT:
            return ["value", type(value).__name__, str(value)]
        return [
            "object",
            self.form(type(value)),
            self.form(_state(value) if self._is_of_project(type(value)) else None),
        ]

    def _of_expression(self, expression: pl.Expr) -> list[Any]:
        functions: list[Any] = []
        expression_tree(expression, lambda function: functions.append(function) or "")
        return [self.form(function) for function in functions]

    def _is_own_module(self, value: Any) -> bool:
        return isinstance(value, ModuleType) and self._is_of_project_module(value.__name__)

    def _is_of_project(self, of: Any) -> bool:
        return self._is_of_project_module(getattr(of, "__module__", None) or "")

    def _is_of_project_module(self, name: str) -> bool:
        package = name.partition(".")[0]
        if package in _NO_PROJECTS or package in sys.stdlib_module_names:
            return False
        # The package of the function itself is of the project also where it is installed, as in an image.
        self._package = self._package or package
        if package == self._package:
            return True
        file = getattr(sys.modules.get(name), "__file__", None)
        return file is not None and not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


_INSTALLED = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib")]
_BY_TEXT = ("datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo", "keyfold.storage.disk_path")


def _state(value: Any) -> Any:
    """Return what workers get of an object: without what it has computed for itself."""
    state = value.__getstate__()
    if not isinstance(state, dict):
        return state
    return {
        name: field
        for name, field in state.items()
        if not isinstance(getattr(type(value), name, None), cached_property)
    }


def _has_content(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
