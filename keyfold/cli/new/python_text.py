"""Python as ruff would format it, so that what is written needs no formatter."""

from collections.abc import Sequence
from unicodedata import east_asian_width

LINE = 120


def quoted(text: str) -> str:
    """A string literal, in the quotes that need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escaped(one, quote) for one in text) + quote


def names(values: Sequence[str]) -> str:
    """A tuple of strings, on one line."""
    inside = ", ".join(quoted(value) for value in values)
    return f"({inside},)" if len(values) == 1 else f"({inside})"


def assigned(target: str, values: Sequence[str], indent: int = 0, end: str = "") -> str:
    """A tuple of strings behind `target`, on one line where it fits, else one a line."""
    return bracketed(f"{target}(", [quoted(value) for value in values], f"){end}", indent, is_tuple=True)


def call(function: str, arguments: Sequence[str], indent: int, end: str = ",") -> str:
    """A call, on one line where it fits, else with one argument a line."""
    return bracketed(f"{function}(", arguments, f"){end}", indent)


def bracketed(begin: str, parts: Sequence[str], end: str, indent: int, *, is_tuple: bool = False) -> str:
    """Parts within brackets: on one line where they fit, else one a line, each with its comma."""
    space = " " * indent
    comma = "," if is_tuple and len(parts) == 1 else ""
    line = f"{space}{begin}{', '.join(parts)}{comma}{end}"
    if _width(line) <= LINE:
        return line
    inside = "".join(f"{space}    {part},\n" for part in parts)
    return f"{space}{begin}\n{inside}{space}{end}"


def _width(line: str) -> int:
    """How many columns a line takes, as ruff counts: some characters take two."""
    return sum(2 if east_asian_width(one) in "WF" else 1 for one in line)


def _escaped(one: str, quote: str) -> str:
    if one in ("\\", quote):
        return f"\\{one}"
    return one if one.isprintable() else repr(one)[1:-1]
