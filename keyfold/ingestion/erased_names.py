"""Names of landing files that held an erased value: a digest stands in their place, by which a file is still known as read."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import PurePath
from urllib.parse import unquote

from keyfold.ingestion.formats import file_type

_PREFIX = "erased-"

Holds = Callable[[str], bool]
"""Whether a text holds a value."""


def erased_name(path: str) -> str:
    """What stands in the place of a file's path below its landing folder; its endings stay.

    Example:
        >>> erased_name("web/eva.csv.gz")
        'erased-bd57bcd1343316dbd063ce9d04d40056.csv.gz'
    """
    digest = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    found, name = file_type(PurePath(path)), PurePath(path).name
    return f"{_PREFIX}{digest}{name[len(found.stem) :] if found.format else ''}"


def is_erased(path: str) -> bool:
    """Whether a digest stands in a path's place."""
    return path.startswith(_PREFIX)


def holds_any(texts: Iterable[str]) -> Holds:
    """Make the function that says whether a text holds one of some values as words of their own, escaped as in a URL too.

    A number that is part of a longer one, or of a date, is no word.

    Example:
        >>> holds = holds_any(["11"])
        >>> [holds("card-11.csv"), holds("card%2D11.csv"), holds("2211.csv"), holds("2026-11-01.csv")]
        [True, True, False, False]
    """
    words = "|".join(_word(unicodedata.normalize("NFC", text)) for text in texts)
    pattern = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])")

    def holds(text: str) -> bool:
        return any(pattern.search(unicodedata.normalize("NFC", one)) for one in (text, unquote(text)))

    return holds


def _word(text: str) -> str:
    return rf"(?<!\d[-_.:]){text}(?![-_.:]\d)" if text.isdigit() else re.escape(text)
