"""Calls of Polars' functions and methods in canonical forms as text, by the names and options that authors know.

A call has the name, the inputs and the options that Polars stores. What an author calls it, and which options are as by default,
is said here; a call that is not known here is a method of its first input, with all its options.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from keyfold.keyed.forms.literal_text import listed, type_text_of

_METHODS = {
    "dt.time_stamp": "dt.epoch",
    "dt.week_day": "dt.weekday",
    "list.length": "list.len",
    "pow.cbrt": "cbrt",
    "pow.sqrt": "sqrt",
    "rleid": "rle_id",
    "set_sorted_flag": "set_sorted",
    "str.concat_vertical": "str.join",
    "str.lowercase": "str.to_lowercase",
    "str.titlecase": "str.to_titlecase",
    "str.uppercase": "str.to_uppercase",
    "str.z_fill": "str.zfill",
}
_FUNCTIONS = {
    "all_horizontal": "all_horizontal",
    "any_horizontal": "any_horizontal",
    "as_struct": "struct",
    "atan2": "arctan2",
    "coalesce": "coalesce",
    "list.concat": "concat_list",
    "max_horizontal": "max_horizontal",
    "mean_horizontal": "mean_horizontal",
    "min_horizontal": "min_horizontal",
    "repeat": "repeat",
    "sum_horizontal": "sum_horizontal",
}
_NAMES = {"delimiter": "separator", "min_periods": "min_samples"}
_OWN_TEXTS = ("delimiter", "format", "name", "separator", "fill_char")
"""Options with a text of the author's; any other text is the name of a variant."""
_DEFAULTS = {
    "cache": True,
    "closed": "both",
    "decimals": 0,
    "exact": True,
    "has_max": True,
    "has_min": True,
    "ignore_nulls": True,
    "mapping_strategy": "groups_to_rows",
    "method": "nearest",
    "mode": "half_to_even",
    "skip_nulls": True,
    "strict": True,
}
_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}
_OF_A_NODE = 2


def call_text(name: str, inputs: Sequence[Any], first: str, others: Sequence[str], options: Any) -> str:
    """Return a call as text.

    Args:
        name, inputs, options: as the canonical form has them.
        first: the first input as text, in brackets where it needs them; empty without inputs.
        others: the other inputs as text.

    Example:
        >>> call_text("str.lowercase", [["col", "city"]], "city", [], {})
        'city.str.to_lowercase()'
    """
    if name in _OF_NAMES:
        return _OF_NAMES[name](name, first, others, options)
    if name in ("replace", "replace_strict") and all(_is_list(input_) for input_ in inputs[1:3]):
        pairs = list(zip(inputs[1][2], inputs[2][2], strict=False))
        shown = listed(pairs, lambda pair: f"{pair[0]!r}: {pair[1]!r}")
        default = [f"default={text}" for text in others[2:]]
        return method_text(first, name, [f"{{{shown}}}", *default, options_text(options)])
    if name in _FUNCTIONS or name.startswith("range."):
        inner = joined([first, *others, options_text(options)])
        return f"{_FUNCTIONS.get(name, name.removeprefix('range.'))}({inner})"
    if not inputs:
        return f"{name}({options_text(options)})"
    return method_text(first, _METHODS.get(name, name.replace("trigonometry.", "")), [*others, options_text(options)])


def method_text(of: str, name: str, arguments: Sequence[str]) -> str:
    """Return a call of a method as text."""
    return f"{of}.{name}({joined(arguments)})"


def joined(arguments: Sequence[str]) -> str:
    """Return arguments as text; an empty one is none."""
    return ", ".join(argument for argument in arguments if argument)


def options_text(content: Any, name: str = "") -> str:
    """Return the options that differ from Polars' defaults as arguments.

    Example:
        >>> options_text({"decimals": 2, "mode": "HalfToEven"})
        'decimals=2'
    """
    if isinstance(content, dict):
        return joined([options_text(value, option) for option, value in content.items()])
    if isinstance(content, list) and content[:1] != ["type"]:
        if name:
            return f"{name}=[{listed(content, value_text)}]" if any(content) else ""
        return joined([options_text(value) for value in content])
    plain = variant_text(content) if isinstance(content, str) and name not in _OWN_TEXTS else content
    # What a plug-in packs for itself is no text.
    if name == "kwargs" or (plain == _DEFAULTS[name] if name in _DEFAULTS else plain in (None, False, "")):
        return ""
    return f"{_NAMES.get(name, name)}={value_text(plain)}" if name and name != "inner" else value_text(plain)


def value_text(content: Any) -> str:
    """Return the value of an option as text."""
    if isinstance(content, list):
        if content[:1] == ["type"]:
            return type_text_of(content[1])
        is_node = len(content) == _OF_A_NODE and isinstance(content[0], str)
        return f"{snake(content[0])}({options_text(content[1])})" if is_node else f"[{listed(content, value_text)}]"
    return f"dict({options_text(content)})" if isinstance(content, dict) else repr(content)


def variant_text(text: str) -> str:
    """Return a variant as Polars' arguments have it: `HalfToEven` as `half_to_even`; empty for none."""
    if text in _UNITS or text == "Ignore":
        return _UNITS.get(text, "")
    return snake(text) if re.fullmatch(r"(?:[A-Z][a-z0-9]+)+", text) else text


def snake(name: str) -> str:
    """Return a name in lower case with underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_list(tree: Any) -> bool:
    return tree[:1] == ["lit"] and isinstance(tree[2], list)


def _rolling(name: str, first: str, others: Sequence[str], options: Any) -> str:
    kind = options.get("function") or options["function_by"]
    settings = dict(options["options"])
    if settings.get("min_periods") == settings.get("window_size"):
        settings.pop("min_periods", None)
    return method_text(
        first, f"rolling_{snake(kind if isinstance(kind, str) else kind[0])}", [*others, options_text(settings)]
    )


def _duration(_: str, first: str, others: Sequence[str], options: Any) -> str:
    units = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")
    parts = [f"{unit}={text}" for unit, text in zip(units, (first, *others), strict=True) if text != "0"]
    unit = [] if options == "Microseconds" else [f"time_unit={variant_text(options)!r}"]
    return f"duration({joined([*parts, *unit])})"


def _datetime(_: str, first: str, others: Sequence[str], options: Any) -> str:
    *parts, ambiguous = others
    while len(parts) > len(("month", "day")) and parts[-1] == "0":
        parts.pop()
    unit, zone = options["time_unit"], options["time_zone"]
    more = [] if unit == "Microseconds" else [f"time_unit={variant_text(unit)!r}"]
    more += [f"time_zone={zone['inner']!r}"] if zone else []
    return f"datetime({joined([first, *parts, *more, _ambiguous(ambiguous)])})"


def _zone(name: str, first: str, others: Sequence[str], options: Any) -> str:
    zone, missing = options
    more = [] if missing == "Raise" else [f"non_existent={variant_text(missing)!r}"]
    return method_text(first, name, [repr(zone["inner"] if zone else None), _ambiguous(others[0]), *more])


def _ambiguous(text: str) -> str:
    return "" if text == "'raise'" else f"ambiguous={text}"


def _parsed_time(_: str, first: str, others: Sequence[str], options: Any) -> str:
    (_, kind), parsing = options
    form = [repr(parsing["format"])] if parsing["format"] else []
    more = options_text({option: value for option, value in parsing.items() if option != "format"})
    name, _, inner = kind.rstrip("]").partition("[")
    unit, _, zone = inner.partition(", ")
    units = [f"time_unit={unit!r}"] if unit not in ("", "us") else []
    zones = [f"time_zone={zone!r}"] if zone else []
    return method_text(first, f"str.to_{name}", [*form, *units, *zones, more, _ambiguous(others[0])])


def _integer(name: str, first: str, others: Sequence[str], options: Any) -> str:
    base = [] if others[0] == "10" else [f"base={others[0]}"]
    kind = [] if options["dtype"] == "Int64" else [f"dtype={options['dtype']}"]
    return method_text(first, name, [*base, *kind, options_text(options["strict"], "strict")])


def _concatenated(_: str, first: str, others: Sequence[str], options: Any) -> str:
    separator = options_text(options["delimiter"], "separator")
    return f"concat_str({joined([first, *others, separator, 'ignore_nulls=True' if options['ignore_nulls'] else ''])})"


_OF_NAMES: dict[str, Callable[[str, str, Sequence[str], Any], str]] = {
    "bin.base64_encode": lambda _, first, _others, _options: f"{first}.bin.encode('base64')",
    "bin.hex_encode": lambda _, first, _others, _options: f"{first}.bin.encode('hex')",
    "dt.datetime_function": _datetime,
    "dt.duration": _duration,
    "dt.replace_time_zone": _zone,
    "fill_null_with_strategy": lambda _, first, _others, options: method_text(
        first, "fill_null", [f"strategy={options[0]!r}", options_text(options[1], "limit")]
    ),
    "fold_horizontal": lambda _, first, others, _options: f"fold({first}, function, [{', '.join(others)}])",
    "list.get": lambda name, first, others, options: method_text(
        first, name, [*others, "null_on_oob=True" if options else ""]
    ),
    "list.join": lambda name, first, others, options: method_text(
        first, name, [*others, options_text(options, "ignore_nulls")]
    ),
    "list.set_operation": lambda _, first, others, options: method_text(
        first, f"list.set_{variant_text(options)}", others
    ),
    "negate": lambda _, first, _others, _options: f"-{first}",
    "not": lambda _, first, _others, _options: f"~{first}",
    "rolling_expr": _rolling,
    "rolling_expr_by": _rolling,
    "str.concat_horizontal": _concatenated,
    "str.strptime": _parsed_time,
    "str.to_integer": _integer,
    "struct.field_by_name": lambda _, first, _others, options: f"{first}.struct.field({options!r})",
}
