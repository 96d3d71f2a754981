"""The canonical form of an expression as text, as an author would write it: `speed > 30`, `at - timedelta(hours=1)`.

The text is Python: columns by their names, and the functions and methods of Polars without `pl.`. Options that are as by default
are left out, and values of a long list after the first ones.
"""

import json
import keyword
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from keyfold.keyed.forms.call_text import call_text, joined, method_text, options_text, value_text
from keyfold.keyed.forms.literal_text import literal_text, type_text_of
from keyfold.times import duration_text

_SIGNS = {
    "And": "&",
    "Or": "|",
    "Xor": "^",
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "Plus": "+",
    "Minus": "-",
    "Multiply": "*",
    "TrueDivide": "/",
    "FloorDivide": "//",
    "Modulus": "%",
}
_METHODS_OF_SIGNS = {"EqValidity": "eq_missing", "NotEqValidity": "ne_missing"}
_OF_A_NODE = 2
_MARK = len(b"PLPYFN")
"""Polars begins what it stores of a function, before the type of its values, with a mark."""


def expression_text(tree: Any, *, is_part: bool = False) -> str:
    """Return the canonical form of an expression as text.

    Args:
        tree: the canonical form.
        is_part: whether it stands within another one, so that it may need brackets.

    Example:
        >>> expression_text(["op", "Gt", ["col", "speed"], ["lit", "any int", 30]])
        'speed > 30'
    """
    if tree in ("Len", "Element"):
        return f"{tree.lower()}()"
    if not _is_tree(tree):
        return value_text(tree)
    if (written := _of_functions(tree)) is not None:
        return written
    return _OF_NODES[tree[0]](tree, is_part) if tree[0] in _OF_NODES else _any_node(*tree)


def _is_tree(content: Any) -> bool:
    is_node = isinstance(content, list) and bool(content) and isinstance(content[0], str)
    return is_node and (content[0] in _OF_NODES or len(content) == _OF_A_NODE)


def _of_functions(tree: Any) -> str | None:
    """Return what a function has made, of Keyfold's or a constant one of Polars', as a call of it."""
    match tree:
        case ["op", "TrueDivide", value, ["op", "Plus", ["op", "Multiply", again, ["lit", _, 0]], by]] if (
            value == again
        ):
            return f"divided({expression_text(value)}, {expression_text(by)})"
        case [
            "cast",
            ["op", "Minus", ["call", "to_physical", [time], _] as ticks, ["op", "Modulus", again, ["lit", _, length]]],
            "datetime[us, UTC]",
            _,
        ] if ticks == again:
            return f"period_start({expression_text(time)}, {duration_text(timedelta(microseconds=length))!r})"
        case ["alias", [["cast", ["alias", [["lit", "datetime[us]", moment], "datetime"]], "date", _], "date"]]:
            return literal_text("date", moment // 86_400_000_000)
        case ["alias", [["lit", "datetime[us]" as kind, moment], "datetime"]]:
            return literal_text(kind, moment)
    return None


def _part(tree: Any) -> str:
    return expression_text(tree, is_part=True)


def _column(tree: Any, _: bool) -> str:
    name = tree[1]
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"col({name!r})"


def _operation(tree: Any, is_part: bool) -> str:
    _, sign, left, right = tree
    if sign in _METHODS_OF_SIGNS:
        return method_text(_part(left), _METHODS_OF_SIGNS[sign], [expression_text(right)])
    text = f"{_part(left)} {_SIGNS.get(sign, sign)} {_part(right)}"
    return f"({text})" if is_part else text


def _if(tree: Any, _: bool) -> str:
    condition, then, otherwise = tree[1:]
    text = f"when({expression_text(condition)}).then({expression_text(then)})"
    if otherwise[:1] == ["if"]:
        return f"{text}.{_if(otherwise, False)}"
    is_nothing = otherwise[:1] == ["lit"] and otherwise[2] is None
    return text if is_nothing else f"{text}.otherwise({expression_text(otherwise)})"


def _aggregate(tree: Any, _: bool) -> str:
    name, content = tree[1]
    of, options = content, ""
    if isinstance(content, dict):
        of = content["input"]
        options = options_text({option: value for option, value in content.items() if option != "input"})
    elif isinstance(content[0], list):
        # The degrees of freedom, which are 1 by default.
        of, degrees = content
        options = "" if degrees == 1 else f"ddof={degrees}"
    return method_text(_part(of), name, [options])


def _call(tree: Any, is_part: bool) -> str:
    _, name, inputs, options = tree
    if name == "pow.generic":
        text = f"{_part(inputs[0])} ** {_part(inputs[1])}"
        return f"({text})" if is_part else text
    first, *others = inputs or [None]
    return call_text(name, inputs, _part(first) if inputs else "", [*map(expression_text, others)], options)


def _cast(tree: Any, _: bool) -> str:
    _, of, kind, options = tree
    to = type_text_of(kind) if isinstance(kind, str) else expression_text(kind)
    return method_text(_part(of), "cast", [to, "" if options == "Strict" else "strict=False"])


def _function(content: Any) -> str:
    """Return a call of a Python function, whose code is compared apart."""
    _, _, result, options = content["function"]
    stored = bytes.fromhex(result)[_MARK:]
    kinds = [word.decode() for word in re.findall(rb"[A-Z][A-Za-z]+\d*", stored) if word != b"Literal"]
    is_by_row = "ROW_SEPARABLE" in content["options"]["flags"] and "skip_nulls" not in options
    arguments = ["function", *(f"return_dtype={kind}" for kind in kinds[:1]), options_text(options)]
    inputs = joined([*map(_part, content["input"])])
    return method_text(inputs, "map", [*arguments, "is_elementwise=True" if is_by_row else ""])


def _any_node(name: str, content: Any) -> str:
    """Return a node that has no form of its own here: a method of what it is applied to, with all that it has."""
    match name, content:
        case "anonymous_function", _:
            return _function(content)
        case "selector", _:
            return _selector(content)
        case "rename_alias", {"function": [kind, *texts], "expr": of}:
            arguments = ["function" if isinstance(text, list) else repr(text) for text in texts]
            return method_text(_part(of), f"name.{kind}", arguments)
        case "eval", {"expr": of, "evaluation": evaluation, "variant": variant}:
            of_list = "list.agg" if variant == "ListAgg" else "list.eval"
            return method_text(_part(of), of_list, [expression_text(evaluation)])
        case "over", {"function": of, "partition_by": by, "order_by": order, "mapping": mapping}:
            ordered = [f"order_by={expression_text(order[0])}", options_text(order[1])] if order else []
            strategy = options_text(mapping, "mapping_strategy")
            return method_text(_part(of), "over", [*map(expression_text, by), *ordered, strategy])
    return _method(name, dict(content)) if isinstance(content, dict) else f"{name}({options_text(content)})"


def _method(name: str, fields: dict[str, Any]) -> str:
    of = fields.pop("input", None) or fields.pop("expr", None) or fields.pop("function", None)
    arguments = []
    for field, value in fields.items():
        values = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
        is_expression = all(map(_is_tree, values))
        arguments.append(joined([*map(expression_text, values)]) if is_expression else options_text(value, field))
    # What is given by its place comes first.
    arguments.sort(key=lambda argument: "=" in argument.partition("(")[0])
    return method_text(_part(of), name, arguments) if of is not None else f"{name}({joined(arguments)})"


def _selector(content: Any) -> str:
    match content:
        case "Wildcard":
            return "all()"
        case ["by_name", {"names": names}]:
            return f"col({', '.join(map(repr, names))})"
        case ["matches", pattern]:
            return f"col({pattern!r})"
        case ["difference", ["Wildcard", ["by_name", {"names": names}]]]:
            return f"exclude({', '.join(map(repr, names))})"
    return f"selectors({json.dumps(content)!r})"


_OF_NODES: dict[str, Callable[[Any, bool], str]] = {
    "agg": _aggregate,
    "alias": lambda tree, _: method_text(_part(tree[1][0]), "alias", [repr(tree[1][1])]),
    "call": _call,
    "cast": _cast,
    "code": lambda _, _is_part: "function",
    "col": _column,
    "if": _if,
    "lit": lambda tree, _: literal_text(tree[1], tree[2]),
    "op": _operation,
    "type": lambda tree, _: type_text_of(tree[1]),
}
