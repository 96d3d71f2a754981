"""Find where two canonical forms differ: at the smallest part that has a name, of an argument, a field, an entry or an element."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from keyfold.keyed.forms.values import Form, text_to_sort

Defaults = Mapping[str, Mapping[str, Form]]
"""The forms of fields that are not given, by class and field (`Forms.defaults`)."""

_OF_A_PAIR = 2
_OF_ENTRIES = ("of", "then", "conditions", "patterns", "derive", "computed")
"""Arguments and fields that are mappings, whose names their author chooses."""
_PLAIN = {"Timeout": "after"}
"""Classes that can be given as the value of one field alone."""


@dataclass(frozen=True)
class FormDifference:
    """A part in which two forms differ.

    Attributes:
        path: its place: names of fields, entries and named elements.
        before, after: its forms; None where there is none.
        is_entry: whether it is an entry of a mapping, which has a name that its author chose.
    """

    path: tuple[str, ...]
    before: Form
    after: Form
    is_entry: bool = False


def form_differences(
    before: Form, after: Form, defaults: Defaults, path: tuple[str, ...] = (), *, is_entry: bool = False
) -> Iterator[FormDifference]:
    """Compare two forms, and their parts where both have the same parts.

    Args:
        before, after: the forms.
        defaults: the forms of fields that are not given.
        path: the place of the forms.
        is_entry: whether they are an entry of a mapping.

    Example:
        >>> before, after = ({"$": "Held", "begins": "a", "ends": end} for end in "bc")
        >>> [(part.path, part.before, part.after) for part in form_differences(before, after, {}, ("FAR",))]
        [(('FAR', 'ends'), 'b', 'c')]
    """
    if text_to_sort(before) == text_to_sort(after):
        return
    if is_columns(before) and is_columns(after):
        yield FormDifference(path, as_columns(before), as_columns(after))
        return
    old, new = _parts(before), _parts(after)
    if old is None or new is None or not _are_alike(before, after):
        yield FormDifference(path, before, after, is_entry)
        return
    kind = before.get("$") if isinstance(before, dict) else None
    has_entries = bool(path) and path[-1] in _OF_ENTRIES
    missing = defaults.get(kind, {}) if kind else {}
    for name in sorted({*old, *new}) if isinstance(before, dict) else new:
        is_whole = _PLAIN.get(kind or "") == name or _is_pair(before) or not name
        place = path if is_whole else (*path, name)
        part_before, part_after = (side.get(name, missing.get(name)) for side in (old, new))
        yield from form_differences(part_before, part_after, defaults, place, is_entry=has_entries)


def is_input(form: Form) -> bool:
    """Whether a form is that of an input as its author gave it."""
    return isinstance(form, dict) and "table" in form and "$" not in form


def is_table(form: Form) -> bool:
    """Whether a form is that of a table that a job writes."""
    return isinstance(form, dict) and {"name", "mode", "columns"} <= form.keys()


def is_columns(form: Form) -> bool:
    """Whether a form is that of columns with their types."""
    if not isinstance(form, dict):
        return False
    return form.get("$") == "columns" or (bool(form) and all(_is_type(value) for value in form.values()))


def as_columns(form: Form) -> Form:
    """Return the form of columns, which those of a table have without its name."""
    return form if form.get("$") == "columns" else {"$": "columns", "of": form}


def _is_type(value: Any) -> bool:
    kinds = (
        "string",
        "int",
        "uint",
        "double",
        "float",
        "bool",
        "timestamp",
        "date",
        "time",
        "duration",
        "decimal",
        "binary",
    )
    return isinstance(value, str) and value.startswith(
        (*kinds, "large_", "list<", "struct<", "map<", "dictionary<", "null")
    )


def _are_alike(before: Form, after: Form) -> bool:
    """Whether two forms have parts that can be compared one by one."""
    if isinstance(before, list):
        # Elements in another order are another list.
        return isinstance(after, list) and [*(_parts(before) or {})] == [*(_parts(after) or {})]
    return isinstance(after, dict) and before.get("$") == after.get("$")


def _parts(form: Form) -> dict[str, Form] | None:
    """Return the parts of a form by name; None of a value without such parts."""
    if isinstance(form, list):
        return _elements(form)
    if not isinstance(form, dict) or {"$", "of"} <= form.keys():
        return None
    return {name: value for name, value in form.items() if name != "$"}


def _is_pair(form: Form) -> bool:
    """Whether a form is that of a name and what has it, such as of a side of a join."""
    return isinstance(form, list) and len(form) == _OF_A_PAIR and isinstance(form[0], str) and isinstance(form[1], dict)


def _elements(form: list[Any]) -> dict[str, Form] | None:
    """Return the elements of a list by name: tables, or pairs of a name or a table and a value; also of one such pair."""
    if _is_pair(form):
        return {form[0]: form[1]}
    named: dict[str, Form] = {}
    for element in form:
        if is_table(element):
            named[element["name"]] = element
        elif isinstance(element, list) and len(element) == _OF_A_PAIR and isinstance(element[0], str):
            named[element[0]] = element[1]
        elif isinstance(element, list) and len(element) == _OF_A_PAIR and is_table(element[0]):
            named[element[0]["name"]] = {"table": element[0], "rows": element[1]}
        else:
            return None
    return named if named and len(named) == len(form) else None
