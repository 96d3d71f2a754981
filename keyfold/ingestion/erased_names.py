"""Replace file names that hold a value which is erased, and find a value as a word in a text."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import PurePath
from urllib.parse import unquote

from keyfold.ingestion.parsing.text import file_type

_PREFIX = "erased-"

Holds = Callable[[str], bool]
"""Returns whether a text contains a value."""


def erased_name(path: str) -> str:
    """Return the digest that replaces a file's path relative to its landing folder, with the file's extensions.

    Example:
        >>> erased_name("web/eva.csv.gz")
        'erased-bd57bcd1343316dbd063ce9d04d40056.csv.gz'
    """
    digest = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    kind, name = file_type(PurePath(path)), PurePath(path).name
    return f"{_PREFIX}{digest}{name[len(kind.stem) :] if kind.format else ''}"


def is_erased(path: str) -> bool:
    """Whether a path is a digest from `erased_name`."""
    return path.startswith(_PREFIX)


def holds_any(texts: Iterable[str]) -> Holds:
    """Return a function that tests whether a text contains one of the values as a whole word, also escaped as in a URL.

    A number that is part of a longer number, or of a date, does not count.

    Example:
        >>> holds = holds_any(["11"])
        >>> [holds("card-11.csv"), holds("card%2D11.csv"), holds("2211.csv"), holds("2026-11-01.csv")]
        [True, True, False, False]
    """
    words = "|".join(_word(unicodedata.normalize("NFC", text)) for text in texts)
    pattern = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])")

    def holds(text: str) -> bool:
        return any(pattern.search(unicodedata.normalize("NFC", name)) for name in (text, unquote(text)))

    return holds


def _word(text: str) -> str:
    return rf"(?<!\d[-_.:]){text}(?![-_.:]\d)" if text.isdigit() else re.escape(text)
