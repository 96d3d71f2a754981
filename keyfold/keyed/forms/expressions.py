"""The canonical form of a Polars expression: its serialized tree in terms of ours.

An expression's text abbreviates lists, and depends on `POLARS_FMT_…`. Its serialized tree has everything, but names and defaults
differ between versions of Polars, and lists in it are bytes of Arrow. The canonical form is a tree of JSON lists, each with the
name of its node first:

["col", name]  ["lit", type, value]  ["lit", type, values, "series"]  ["op", "Plus", left, right]
["call", "str.contains", inputs, options]  ["cast", of, type, "Strict"]  ["if", condition, then, otherwise]  ["code", label, type of its values, options]

Every other node is `[name, content]` with all that it has: a node that is not known here is kept, and never left out.
"""

import json
import math
import pickle
import re
import struct
from collections.abc import Callable
from typing import Any

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.keyed.forms.python_functions import Recorded, functions_recorded
from keyfold.keyed.forms.types import type_text

Tree = list[Any]
"""The canonical form of an expression, or of a part of one."""

OfCode = Callable[[Any], str]
"""Takes a Python function that an expression calls, and returns a label for it."""

_NAMESPACES = {
    "ArrayExpr": "arr.",
    "BinaryExpr": "bin.",
    "Bitwise": "bitwise_",
    "Boolean": "",
    "Business": "business.",
    "Categorical": "cat.",
    "Extension": "ext.",
    "ListExpr": "list.",
    "Pow": "pow.",
    "Range": "range.",
    "RollingExpr": "rolling.",
    "RollingExprBy": "rolling_by.",
    "StringExpr": "str.",
    "StructExpr": "struct.",
    "TemporalExpr": "dt.",
    "Trigonometry": "trigonometry.",
}

_NAMED_BEFORE = {"dt.datetime_function": "datetime", "repeat": "repeat"}
_HOW_FAST = ("multithreaded", "parallel")
"""Options that change no result."""


def expression_tree(expression: pl.Expr, of_code: OfCode) -> Tree:
    """Return the canonical form of an expression.

    Args:
        expression: the expression.
        of_code: takes each Python function that it calls, and gives it a label.

    Raises:
        Misconfigured: it has an object that cannot be written down.

    Example:
        >>> expression_tree(pl.col("city").is_in(["oslo", "lima"]), lambda function: '')
        ['call', 'is_in', [['col', 'city'], ['lit', 'list[string]', ['oslo', 'lima']]], {'nulls_equal': False}]
    """
    try:
        with functions_recorded() as recorded:
            text = expression.meta.serialize(format="json")
        not_finite = _not_finite(expression) if _NO_NUMBER.search(text) else []
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise Misconfigured(
            f"the expression {expression} has a value that cannot be written down: {str(error).splitlines()[0]}; use values of "
            "columns' types, and functions"
        ) from None
    return _Translation(recorded, of_code, not_finite).tree(json.loads(text))


class _Translation:
    """Translates the serialized tree of one expression."""

    def __init__(self, recorded: list[Recorded], of_code: OfCode, not_finite: list[float]) -> None:
        self._recorded, self._of_code, self._not_finite = recorded, of_code, iter(not_finite)

        self._nodes: dict[str, Callable[[Any], Tree]] = {
            "Alias": self._alias,
            "BinaryExpr": self._operation,
            "Cast": self._cast,
            "Column": lambda name: ["col", name],
            "Function": self._call,
            "Literal": self._literal,
            "Over": self._over,
            # Polars before 2 knows no other variant, and does not name it.
            "StructEval": lambda content: ["struct_eval", self.tree({"variant": "WithFields", **content})],
            "Ternary": lambda content: ["if", *(self.tree(content[of]) for of in ("predicate", "truthy", "falsy"))],
        }

    def tree(self, node: Any) -> Any:
        """Translate a node with all that is in it."""
        if isinstance(node, list):
            return self._list(node)
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, content),) = node.items()
            if name[:1].isupper():
                translate = self._nodes.get(name)
                return translate(content) if translate else [_snake(name), self.tree(content)]
        return {name: self.tree(value) for name, value in node.items() if name not in _HOW_FAST}

    def _list(self, content: list[Any]) -> Any:
        """Translate a list, which may be the bytes of a Python function."""
        if len(content) > _HEADER and all(type(byte) is int and 0 <= byte < 256 for byte in content):
            stored = bytes(content)
            if token := re.search(rb"keyfold-function-(\d+)", stored):
                # The part before has the type of what it returns, and whether it works row by row.
                function, options = self._recorded[int(token[1])]
                return ["code", self._of_code(function), stored[: token.start() - _HEADER].hex(), options]
            # A function that can be imported, by its name: Polars has pickled it a moment ago, here.
            if stored[0] == 0 and stored[_HEADER : _HEADER + 1] == pickle.PROTO:
                return ["code", self._of_code(pickle.loads(stored[_HEADER:])), "", {}]  # noqa: S301
        return [self.tree(item) for item in content]

    def _literal(self, content: Any) -> Tree:
        kind: str
        value: Any
        kind, value = next(iter(content.items())) if isinstance(content, dict) else ("", None)
        if kind == "Series":
            series = _series(value)
            return ["lit", type_text(series.dtype), plain_values(series), "series"]
        if kind not in ("Dyn", "Scalar") or not isinstance(value, dict):
            # A type, or a kind of literal that is not known here.
            return ["lit", _snake(kind), self.tree(value)] if kind == "Range" else ["type", type_text(content)]
        ((name, held),) = value.items()
        if name == "Null":
            return ["lit", type_text(held), None]
        if name == "List":
            series = _series(held)
            return ["lit", f"list[{type_text(series.dtype)}]", plain_values(series)]
        if name in ("Float", "Float32", "Float64"):
            held = _plain(next(self._not_finite) if held is None else float(held))
        prefix = "any " if kind == "Dyn" else ""
        if isinstance(held, list) and name in _WITH_TYPE:
            held, kind_text = held[0], type_text({name: held[1:] if name != "Duration" else held[1]})
            return ["lit", kind_text, held]
        if name == "Binary":
            held = bytes(held).hex()
        return ["lit", prefix + type_text(name), self.tree(held)]

    def _alias(self, content: Any) -> Tree:
        of, name = self.tree(content[0]), content[1]
        # Before Polars 2, these name their column themselves.
        return of if of[:1] == ["call"] and _NAMED_BEFORE.get(of[1]) == name else ["alias", [of, name]]

    def _operation(self, content: Any) -> Tree:
        return ["op", content["op"], self.tree(content["left"]), self.tree(content["right"])]

    def _cast(self, content: Any) -> Tree:
        to = content["dtype"]
        # A type may be an expression over types.
        named = type_text(to["Literal"]) if isinstance(to, dict) and [*to] == ["Literal"] else self.tree(to)
        return ["cast", self.tree(content["expr"]), named, content["options"]]

    def _call(self, content: Any) -> Tree:
        name, options = _named(content["function"])
        inputs = [self.tree(input_) for input_ in content["input"]]
        if name == "ffi_plugin":
            # A plugin by its package, since its path is of this machine.
            package = options["lib"].replace("\\", "/").rstrip("/").split("/")[-2]
            return ["call", f"{package}.{options['symbol']}", inputs, {"kwargs": bytes(options["kwargs"]).hex()}]
        # Before Polars 2, a hash has four seeds, all alike unless they are given.
        if name == "hash" and isinstance(options, list) and len(set(options)) == 1:
            options = options[0]
        return ["call", name, inputs, self.tree(options)]

    def _over(self, content: Any) -> Tree:
        tree = {name: self.tree(value) for name, value in content.items()}
        if tree.get("order_by"):
            by, options = tree["order_by"]
            # Since Polars 2, it is stable.
            tree["order_by"] = [by, {name: value for name, value in options.items() if name != "maintain_order"}]
        return ["over", tree]


_HEADER = 3
"""Polars marks the bytes of a Python function with the kind of pickle, and the version of Python."""
_WITH_TYPE = ("Datetime", "Duration", "Decimal")
_NO_NUMBER = re.compile(r'"Float(?:32|64)?":\s*null')


def _named(function: Any) -> tuple[str, Any]:
    """Return the name of a function, with its namespace, and its options."""
    if isinstance(function, str):
        return _snake(function), {}
    ((name, content),) = function.items()
    if name in _NAMESPACES and isinstance(content, str | dict):
        inner, options = (content, {}) if isinstance(content, str) else next(iter(content.items()))
        if isinstance(content, str) or len(content) == 1:
            return _NAMESPACES[name] + _snake(inner), options
    return _snake(name), content


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _series(stored: list[int]) -> pl.Series:
    return pl.read_ipc_stream(bytes(stored)).to_series()


def plain_values(series: pl.Series) -> list[Any]:
    """Return the values of a series as JSON: times, decimals and bytes as text, a float that is no number by its name."""
    return [_plain(item) for item in series.to_list()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, pl.Series):
        return plain_values(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _not_finite(expression: pl.Expr) -> list[float]:
    """Return the float literals that are no finite number, in order: JSON has NULL for them, and the binary form has them."""
    stored = re.finditer(
        rb"\xa5Float\xcb(.{8})|\xa7Float64\xcb(.{8})|\xa7Float32\xca(.{4})",
        expression.meta.serialize(format="binary"),
        re.DOTALL,
    )
    packed = [next(group for group in match.groups() if group is not None) for match in stored]
    values = [struct.unpack(">d" if len(bits) == 8 else ">f", bits)[0] for bits in packed]
    return [value for value in values if not math.isfinite(value)]
