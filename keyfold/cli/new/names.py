"""Check names that users choose, make column names of those in files, and write names as Python text."""

import keyword
import re
import unicodedata
from collections.abc import Sequence

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.operators.aggregation.window_shapes import PANE
from keyfold.stream import INGESTED_AT

_NAME = re.compile(r"[a-z][a-z0-9_]{0,32}")
_TAKEN_BY_DAGSTER = frozenset({"everything"})
_TAKEN_BY_TABLES = frozenset({DEADLINE, PROCESSING_DEADLINE, INGESTED_AT, PANE, "window_start", "window_end", "events"})
_LONGEST = 38
_LINE = 120


def check_name(name: str) -> None:
    """Check that a stream and a project can have this name.

    Raises:
        KeyfoldError: they cannot; the message says why.
    """
    is_reserved = keyword.iskeyword(name) or name in _TAKEN_BY_DAGSTER
    if is_reserved or not _NAME.fullmatch(name) or name.endswith("_") or "__" in name:
        raise KeyfoldError(
            f"{name!r} {'is reserved' if is_reserved else 'cannot be the name'}: use at most 33 lower-case letters, digits and "
            "single underscores, beginning with a letter; it becomes the name of a module, a folder and tables"
        )


def column_names(labels: Sequence[str]) -> list[str]:
    """Make a unique column name for each label of a raw column.

    Example:
        >>> column_names(["InvoiceNo", "Größe", "2nd", "日本", "deadline", "invoice no"])
        ['invoice_no', 'grosse', 'column_2nd', 'column_4', 'event_deadline', 'invoice_no_2']
    """
    names: list[str] = []
    for place, label in enumerate(labels, start=1):
        name = "_".join(words(label))[:_LONGEST].strip("_") or f"column_{place}"
        if not name[0].isalpha():
            name = f"column_{name}"
        if name in _TAKEN_BY_TABLES:
            name = f"event_{name}"
        unique, number = name, 2
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    return names


def words(name: str) -> list[str]:
    """Split a name into lower-case words: `tripStart-Time` is trip, start, time."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    return re.findall(r"[a-z0-9]+", parted.lower())


def quoted(text: str) -> str:
    """Write a string literal, in the quotes that need fewer escapes, as ruff would."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def bracketed(begin: str, parts: Sequence[str], end: str, indent: int) -> str:
    """Write parts within brackets, on one line if they fit, else one per line with trailing commas, as ruff would."""
    space = " " * indent
    comma = "," if len(parts) == 1 and begin.endswith(("=(", " (")) else ""
    line = f"{space}{begin}{', '.join(parts)}{comma}{end}"
    # Ruff counts wide characters as two columns.
    if len(line) + sum(unicodedata.east_asian_width(character) in "WF" for character in line) <= _LINE:
        return line
    return f"{space}{begin}\n" + "".join(f"{space}    {part},\n" for part in parts) + f"{space}{end}"


def _escaped(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return f"\\{character}"
    return character if character.isprintable() else repr(character)[1:-1]
