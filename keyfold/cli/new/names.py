"""Names: those that people choose are checked, those that files bring become names of columns."""

import keyword
import re
import unicodedata
from collections.abc import Collection, Mapping

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.stream import INGESTED_AT

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN_BY_DAGSTER = frozenset({"everything", "monitoring", "run_statistics"})
_TAKEN_BY_TABLES = frozenset({DEADLINE, STALE_AT, INGESTED_AT})
_LONGEST = 38


def check_name(what: str, name: str) -> None:
    """See that a stream or job can have a name.

    Raises:
        KeyfoldError: it cannot; says why.
    """
    if not _NAME.fullmatch(name) or name.endswith("_") or "__" in name:
        raise KeyfoldError(
            f"{name!r} cannot name a {what}: use at most 40 lower-case letters, digits and single underscores, beginning with a "
            "letter; it becomes the name of a module, a folder and tables"
        )
    if keyword.iskeyword(name) or name in _TAKEN_BY_DAGSTER:
        raise KeyfoldError(f"{name!r} cannot name a {what}: the word is reserved; choose another")


def column_names(labels: Mapping[str, str]) -> dict[str, str]:
    """A name in the event table for each raw column: `Start Station` is `start_station`; each once.

    Args:
        labels: what each raw column is called, by its raw name.

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
    """What a column of numbers is called, and the unit that stands behind it in brackets; empty where there is none.

    Example:
        >>> label_and_unit("Speed (km/h)")
        ('Speed', 'km/h')
    """
    found = re.fullmatch(r"(.*\w)\s*[(\[]\s*([^()\[\]]{1,20}?)\s*[)\]]\s*", raw)
    return (found[1], found[2]) if found else (raw, "")


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it where it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def words(name: str) -> list[str]:
    """The words of a name, in lower case, whatever parts them: `tripStart-Time` is trip, start, time."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    return re.findall(r"[a-z0-9]+", parted.lower())


def title(name: str) -> str:
    """A name as it is spoken: `start_station` is `Start station`."""
    return " ".join(words(name)).capitalize()
