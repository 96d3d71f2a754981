"""Make text from data safe for a terminal or a spreadsheet.

Landed data can contain Rich markup, escape sequences that recolour or retitle a terminal, marks that reverse the direction of
text, or a formula. All of them are printed as plain characters.
"""

import re
from unicodedata import category

from rich.text import Text

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates, and line and paragraph separators."""

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, keep: str = "") -> str:
    r"""Write control and format characters as escapes, such as `\x1b`.

    Args:
        text: any text.
        keep: characters that are not escaped.

    Example:
        >>> visible("red \x1b[31m, two\nlines", keep="\n")
        'red \\x1b[31m, two\nlines'
    """
    if text.isprintable():
        return text
    return "".join(_escaped(one) if category(one) in _INVISIBLE and one not in keep else one for one in text)


def message(text: str) -> Text:
    """Return a message for the console, without a library's colours; it is never taken for markup."""
    return Text(visible(_COLOURS.sub("", text), keep="\n"))


def cell(value: object) -> Text:
    """Return a value for a table on the console, on one line; it is never taken for markup."""
    return Text("" if value is None else f"{value:.6g}" if isinstance(value, float) else visible(str(value)))


def guarded(text: str | None) -> str | None:
    """Return text for a CSV cell, with an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{text}" if text is not None and text.startswith(_BEGINS_A_FORMULA) else text


def _escaped(one: str) -> str:
    code = ord(one)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(one)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
