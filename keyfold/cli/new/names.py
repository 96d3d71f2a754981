"""Check names that users choose, and make column names of the names in files."""

import keyword
import re
import unicodedata
from collections.abc import Collection, Mapping

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.step import DEADLINE, STALE_AT
from keyfold.stream import INGESTED_AT

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN_BY_DAGSTER = frozenset({"everything", "monitoring", "run_statistics"})
_TAKEN_BY_TABLES = frozenset({DEADLINE, STALE_AT, INGESTED_AT})
_LONGEST = 38
"""Length of a column name, which leaves room for the number that `free_name` appends."""


def check_name(what: str, name: str) -> None:
    """Check that a stream, job or project can have this name.

    Raises:
        KeyfoldError: it cannot; the message says why.
    """
    if not _NAME.fullmatch(name) or name.endswith("_") or "__" in name:
        raise KeyfoldError(
            f"{name!r} cannot name a {what}: use at most 40 lower-case letters, digits and single underscores, beginning "
            "with a letter; it becomes the name of a module, a folder and tables"
        )
    if keyword.iskeyword(name) or name in _TAKEN_BY_DAGSTER:
        raise KeyfoldError(f"{name!r} cannot name a {what}: the word is reserved; choose another")


def column_names(labels: Mapping[str, str]) -> dict[str, str]:
    """Make a unique column name for each raw column: `Start Station` becomes `start_station`.

    Args:
        labels: the label of each raw column, by its raw name.

    Example:
        >>> column_names({"InvoiceNo": "InvoiceNo", "Größe (cm)": "Größe", "2nd": "2nd", "deadline": "deadline"})
        {'InvoiceNo': 'invoice_no', 'Größe (cm)': 'grosse', '2nd': 'column_2nd', 'deadline': 'event_deadline'}
    """
    names: dict[str, str] = {}
    for place, (raw, label) in enumerate(labels.items(), start=1):
        name = "_".join(words(label))[:_LONGEST].strip("_") or f"column_{place}"
        if not name[0].isalpha():
            name = f"column_{name}"
        if name in _TAKEN_BY_TABLES:
            name = f"event_{name}"
        names[raw] = free_name(name, names.values())
    return names


def label_and_unit(raw: str) -> tuple[str, str]:
    """Split the name of a column of numbers into its label and the unit in brackets; empty if it has none.

    Example:
        >>> label_and_unit("Speed (km/h)")
        ('Speed', 'km/h')
    """
    found = re.fullmatch(r"(.*\w)\s*[(\[]\s*([^()\[\]]{1,20}?)\s*[)\]]\s*", raw)
    return (found[1], found[2]) if found else (raw, "")


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def words(name: str) -> list[str]:
    """Split a name into lower-case words: `tripStart-Time` is trip, start, time."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    return re.findall(r"[a-z0-9]+", parted.lower())


def title(name: str) -> str:
    """Make a title of a name: `start_station` is `Start station`."""
    return " ".join(words(name)).capitalize()
