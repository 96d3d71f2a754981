"""Canonical forms as text, as an author would write them: `speed > 30`, `min(speed)`, `90m`; and a change from one to another."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from keyfold.keyed.forms.expression_text import expression_text
from keyfold.keyed.forms.form_differences import is_input, is_table
from keyfold.keyed.forms.literal_text import listed
from keyfold.keyed.forms.values import Form

_NOTHING = "(none)"


def text_of(form: Form) -> str:
    """Return a canonical form as text.

    Example:
        >>> text_of({"$": "call", "of": ["min", {"value": {"$": "expression", "of": ["col", "speed"]}}]})
        'min(speed)'
    """
    if isinstance(form, list):
        return f"[{listed(form, text_of)}]"
    if not isinstance(form, dict):
        is_name = isinstance(form, str) and re.fullmatch(r"[\w.]+", form)
        return form if is_name else repr(form)
    kind = form.get("$")
    if kind in _OF_KINDS:
        return _OF_KINDS[kind](form)
    return _value_of_kind(form["of"]) if form.keys() == {"$", "of"} else _object(kind, form)


def _value_of_kind(content: Any) -> str:
    return text_of(content) if isinstance(content, list | dict) else str(content)


def _object(kind: Any, form: dict[str, Any]) -> str:
    if is_table(form):
        return _table(form)
    named = {name: value for name, value in form.items() if name not in ("$", "table")}
    if is_input(form):
        return f"Input({_arguments(named, form['table'])})"
    if kind is None:
        return f"{{{', '.join(f'{name}: {text_of(value)}' for name, value in form.items())}}}"
    return f"{kind}({_arguments(named)})"


def change_text(before: Form, after: Form) -> str:
    """Return the change from one form to another as text; of columns, and of lists in an expression, what is new and gone.

    Example:
        >>> change_text({"$": "duration", "of": "1h"}, {"$": "duration", "of": "90m"})
        '1h → 90m'
    """
    if before is None:
        return f"{_whole(after)} is new"
    if after is None:
        return f"{_whole(before)} is gone"
    if all(isinstance(form, dict) and form.get("$") == "columns" for form in (before, after)):
        return _changed_columns(before["of"], after["of"])
    if (lists := _changed_list(before, after)) is not None:
        return _list_change(after, *lists)
    texts = _whole(before), _whole(after)
    # What has no text of its own, such as an option of a plug-in, must not look like no change.
    return " → ".join(texts) if texts[0] != texts[1] else f"{texts[0]} with other options"


def _whole(form: Form) -> str:
    """Return the text of a value that stands for itself: names without brackets."""
    if form in ("", [], {}):
        return _NOTHING
    if isinstance(form, list) and all(isinstance(item, str) for item in form):
        return listed(form, text_of)
    return text_of(form)


def _arguments(named: Mapping[str, Form], *first: str) -> str:
    shown = ((name, value) for name, value in named.items() if not (name == "conserved" and value is True))
    return ", ".join([*first, *(f"{name}={text_of(value)}" for name, value in shown)])


def _call_of_function(form: dict[str, Any]) -> str:
    name, arguments = form["of"]
    value = [text_of(arguments["value"])] if "value" in arguments else []
    return (
        f"{name}({_arguments({argument: form for argument, form in arguments.items() if argument != 'value'}, *value)})"
    )


def _table(form: dict[str, Any]) -> str:
    named = {"key": form["key"], "name": form["name"], "changes": form.get("changes")}
    arguments = {name: value for name, value in named.items() if value}
    return f"{form['mode'].capitalize()}({_arguments(arguments, listed([*form['columns']], str))})"


def _changed_columns(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    effects = [f"{name} is new" for name in new if name not in old]
    effects += [f"{name} is gone" for name in old if name not in new]
    effects += [f"{name} {old[name]} → {new[name]}" for name in new if name in old and old[name] != new[name]]
    return ", ".join(effects) or "another order"


def _list_change(after: Form, old: list[Any], new: list[Any]) -> str:
    added, gone = [item for item in new if item not in old], [item for item in old if item not in new]
    effects = [f"added {_values(added)}"] if added else []
    effects += [f"removed {_values(gone)}"] if gone else []
    effects = effects or ["in another order, or another number of times"]
    container = "a list of"
    match after["of"]:
        case ["call", "is_in", [of, _], _]:
            container = f"{expression_text(of)} is one of"
    return f"{container} {len(old):,} → {len(new):,} values ({'; '.join(effects)})"


def _values(values: list[Any]) -> str:
    return listed(values, str)


def _changed_list(before: Form, after: Form) -> tuple[list[Any], list[Any]] | None:
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


_OF_KINDS: dict[Any, Callable[[dict[str, Any]], str]] = {
    "call": _call_of_function,
    "code": lambda _: "a function",
    "columns": lambda form: ", ".join(f"{name} {kind}" for name, kind in form["of"].items()),
    "expression": lambda form: expression_text(form["of"]),
    "set": lambda form: f"{{{listed(form['of'], text_of)}}}",
}
