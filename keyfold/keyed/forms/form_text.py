"""Canonical forms as text, in an author's words: `speed > 30`, `min(speed)`, `90m`."""

import json
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from keyfold.times import duration_text, from_micros

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
    "EqValidity": "eq_missing",
    "NotEqValidity": "ne_missing",
}
_LONGEST_LIST = 12
"""Values of a list that are shown; of a longer one, its first values and its length."""


def text_of(form: Any) -> str:
    """Return a canonical form as text.

    Example:
        >>> text_of({"$": "call", "of": ["min", {"value": {"$": "expression", "of": ["col", "speed"]}}]})
        'min(speed)'
    """
    if isinstance(form, list):
        return f"[{_listed(form, text_of)}]"
    if not isinstance(form, dict):
        return repr(form) if isinstance(form, str) and not form.isidentifier() else str(form)
    kind, content = form.get("$"), form.get("of")
    if kind in _OF_KINDS:
        return _OF_KINDS[kind](form)
    if kind is not None and form.keys() == {"$", "of"}:
        return text_of(content) if isinstance(content, list | dict) else str(content)
    fields = ", ".join(f"{name}={text_of(value)}" for name, value in form.items() if name != "$")
    return f"{{{fields}}}" if kind is None else f"{kind}({fields})"


def _call_of_function(form: dict[str, Any]) -> str:
    name, arguments = form["of"]
    value = [text_of(arguments["value"])] if "value" in arguments else []
    options = [f"{argument}={text_of(form)}" for argument, form in arguments.items() if argument != "value"]
    return f"{name}({', '.join([*value, *options])})"


def expression_text(tree: Any, *, is_part: bool = False) -> str:
    """Return the canonical form of an expression as text.

    Example:
        >>> expression_text(["op", "Gt", ["col", "speed"], ["lit", "any int", 30]])
        'speed > 30'
    """
    if isinstance(tree, list) and tree and tree[0] in _OF_NODES:
        return _OF_NODES[tree[0]](tree, is_part)
    return "len()" if tree == "Len" else _plain(tree)


def _operation(tree: Any, is_part: bool) -> str:
    _, sign, left, right = tree
    text = f"{_part(left)} {_SIGNS.get(sign, sign)} {_part(right)}"
    return f"({text})" if is_part else text


def _if(tree: Any) -> str:
    condition, then, otherwise = map(expression_text, tree[1:])
    return f"when({condition}).then({then}).otherwise({otherwise})"


def _agg(tree: Any) -> str:
    name, content = tree[1]
    of = content["input"] if isinstance(content, dict) and "input" in content else content
    return f"{_part(of)}.{name}()"


def _part(tree: Any) -> str:
    return expression_text(tree, is_part=True)


def _call(tree: Any) -> str:
    _, name, inputs, options = tree
    first, *others = [*map(_part, inputs)] or [""]
    if name == "not":
        return f"~{first}"
    arguments = options.items() if isinstance(options, dict) else [("", options)]
    more = [
        f"{key}={_plain(value)}" if key else _plain(value)
        for key, value in arguments
        if value not in (None, False, {}, [])
    ]
    return f"{first}.{name}({', '.join([*others, *more])})" if first else f"{name}({', '.join(more)})"


def _literal(kind: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{_listed(value, repr)}]"
    if kind.startswith("duration[us"):
        return duration_text(timedelta(microseconds=value))
    if kind.startswith("datetime[us"):
        return from_micros(value).isoformat()
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    return repr(value)


def _plain(content: Any) -> str:
    if isinstance(content, list):
        if len(content) > 1 and content[0] in _OF_NODES:
            return expression_text(content)
        is_node = len(content) == 2 and isinstance(content[0], str)
        return f"{content[0]}({_plain(content[1])})" if is_node else f"[{_listed(content, _plain)}]"
    if isinstance(content, dict):
        return ", ".join(f"{key}={_plain(value)}" for key, value in content.items() if value is not None)
    return content if isinstance(content, str) else json.dumps(content)


def _listed(values: Sequence[Any], text: Any) -> str:
    shown = ", ".join(map(text, values[:_LONGEST_LIST]))
    return shown if len(values) <= _LONGEST_LIST else f"{shown}, … ({len(values):,} values)"


_OF_KINDS: dict[Any, Callable[[dict[str, Any]], str]] = {
    "call": _call_of_function,
    "code": lambda _: "a function",
    "columns": lambda form: ", ".join(f"{name} {kind}" for name, kind in form["of"].items()),
    "expression": lambda form: expression_text(form["of"]),
    "set": lambda form: f"{{{_listed(form['of'], text_of)}}}",
}
_OF_NODES: dict[str, Callable[[Any, bool], str]] = {
    "agg": lambda tree, _: _agg(tree),
    "alias": lambda tree, _: f"{_part(tree[1][0])}.alias({tree[1][1]!r})",
    "call": lambda tree, _: _call(tree),
    "cast": lambda tree, _: f"{_part(tree[1])}.cast({tree[2] if isinstance(tree[2], str) else _plain(tree[2])})",
    "col": lambda tree, _: tree[1] if tree[1].isidentifier() else f"col({tree[1]!r})",
    "if": lambda tree, _: _if(tree),
    "lit": lambda tree, _: _literal(tree[1], tree[2]),
    "op": _operation,
}


def change_text(before: Any, after: Any) -> str:
    """Return the change from one form to another as text; of lists in an expression that is otherwise the same, what is new and gone.

    Example:
        >>> change_text({"$": "duration", "of": "1h"}, {"$": "duration", "of": "90m"})
        '1h → 90m'
    """
    if before is None:
        return f"{text_of(after)} is new"
    if after is None:
        return f"{text_of(before)} is gone"
    if (lists := _changed_list(before, after)) is not None:
        old, new = lists
        added, gone = [item for item in new if item not in old], [item for item in old if item not in new]
        effects = [f"added {_words(added)}"] if added else []
        effects += [f"removed {_words(gone)}"] if gone else []
        effects = effects or ["in another order, or another number of times"]
        container = "a list of"
        match after["of"]:
            case ["call", "is_in", [of, _], _]:
                container = f"{expression_text(of)} is one of"
        return f"{container} {len(old):,} → {len(new):,} values ({'; '.join(effects)})"
    return f"{text_of(before)} → {text_of(after)}"


def _words(values: Sequence[Any]) -> str:
    return _listed(values, str)


def _changed_list(before: Any, after: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the one list of values in which two expressions differ; None if they differ otherwise."""
    if not all(isinstance(form, dict) and form.get("$") == "expression" for form in (before, after)):
        return None
    pairs = [*_differing(before["of"], after["of"])]
    if len(pairs) != 1:
        return None
    old, new = pairs[0]
    are_lists = all(isinstance(node, list) and node[:1] == ["lit"] and isinstance(node[2], list) for node in (old, new))
    return (old[2], new[2]) if are_lists else None


def _differing(before: Any, after: Any) -> Any:
    """Yield the smallest parts of two trees that differ; a literal is one part."""
    if before == after:
        return
    is_literal = any(isinstance(node, list) and node[:1] == ["lit"] for node in (before, after))
    if not is_literal and isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for pair in zip(before, after, strict=True):
            yield from _differing(*pair)
        return
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for name in before:
            yield from _differing(before[name], after[name])
        return
    yield before, after
