"""Text from data, as a terminal or a spreadsheet may safely get it.

What landed in a file can hold markup of Rich, escape sequences that recolour or retitle a terminal, marks that reverse the
direction of text, or a formula. All of it is printed as the characters that it is made of.
"""

import re
from unicodedata import category

from rich.text import Text

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control and format characters, lone surrogates and separators of lines."""

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, keep: str = "") -> str:
    r"""Text whose control and format characters are written as escapes, such as `\x1b`.

    Args:
        text: any text.
        keep: characters that stay as they are.

    Example:
        >>> visible("red \x1b[31m, two\nlines", keep="\n")
        'red \\x1b[31m, two\nlines'
    """
    if text.isprintable():
        return text
    return "".join(_escaped(one) if category(one) in _INVISIBLE and one not in keep else one for one in text)


def message(text: str) -> Text:
    """A message of one or more lines for the console: without colours that a library gave it, and never as markup."""
    return Text(visible(_COLOURS.sub("", text), keep="\n"))


def cell(value: object) -> Text:
    """A value for a table on the console, on one line and never as markup."""
    return Text("" if value is None else f"{value:.6g}" if isinstance(value, float) else visible(str(value)))


def guarded(text: str | None) -> str | None:
    """Text for a CSV cell: where a spreadsheet would take it for a formula, with an apostrophe before it."""
    return f"'{text}" if text is not None and text.startswith(_BEGINS_A_FORMULA) else text


def _escaped(one: str) -> str:
    code = ord(one)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(one)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
