"""Generate Python source text in the format of ruff, so that generated files need no formatter."""

from collections.abc import Sequence
from unicodedata import east_asian_width

LINE = 120


def quoted(text: str) -> str:
    """Write a string literal, in the quotes that need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escaped(one, quote) for one in text) + quote


def names(values: Sequence[str]) -> str:
    """Write a tuple of strings on one line."""
    inside = ", ".join(quoted(value) for value in values)
    return f"({inside},)" if len(values) == 1 else f"({inside})"


def assigned(target: str, values: Sequence[str], indent: int = 0, end: str = "") -> str:
    """Write a tuple of strings after `target`, on one line if it fits, else one per line."""
    return bracketed(f"{target}(", [quoted(value) for value in values], f"){end}", indent, is_tuple=True)


def call(function: str, arguments: Sequence[str], indent: int, end: str = ",") -> str:
    """Write a call, on one line if it fits, else with one argument per line."""
    return bracketed(f"{function}(", arguments, f"){end}", indent)


def bracketed(begin: str, parts: Sequence[str], end: str, indent: int, *, is_tuple: bool = False) -> str:
    """Write parts within brackets, on one line if they fit, else one per line with trailing commas."""
    space = " " * indent
    comma = "," if is_tuple and len(parts) == 1 else ""
    line = f"{space}{begin}{', '.join(parts)}{comma}{end}"
    if _width(line) <= LINE:
        return line
    inside = "".join(f"{space}    {part},\n" for part in parts)
    return f"{space}{begin}\n{inside}{space}{end}"


def _width(line: str) -> int:
    """Return the width of a line as ruff counts it: wide characters take two columns."""
    return sum(2 if east_asian_width(one) in "WF" else 1 for one in line)


def _escaped(one: str, quote: str) -> str:
    if one in ("\\", quote):
        return f"\\{one}"
    return one if one.isprintable() else repr(one)[1:-1]
