"""Declare what the files of a stream are like, where they are not as files usually are. Nothing of it is guessed from a file."""

import codecs
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import polars as pl

from keyfold.errors import Misconfigured

_MAY_NOT_SEPARATE = '"\r\n.+-'


@dataclass(frozen=True)
class FileFormat:
    """What the files of a stream are like.

    Attributes:
        delimiter: the character between the fields of CSV.
        decimal: the sign before the fraction of numbers in CSV: `.` or `,`.
        encoding: the encoding of text files, by a name that Python knows.
        zone: the time zone (IANA) of times that are written without one, in files of any format and in messages; a time that clocks show
            twice or never, since they are changed, goes to quarantine. Empty takes them for UTC, and ingest warns.

    Raises:
        Misconfigured: a value is none of these, or the delimiter is the decimal sign.

    Example:
        >>> FileFormat(delimiter=";", decimal=",", encoding="cp1252", zone="Europe/Berlin").decimal
        ','
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    zone: str = ""

    def __post_init__(self) -> None:
        sign = self.delimiter
        if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in _MAY_NOT_SEPARATE:
            raise Misconfigured(
                f"FileFormat: delimiter is {sign!r}; give the one character between fields, such as ';' or '\\t'"
            )
        if self.decimal not in (".", ","):
            raise Misconfigured(f"FileFormat: decimal is {self.decimal!r}; it is '.' or ','")
        if sign == self.decimal:
            raise Misconfigured(
                f"FileFormat: decimal and delimiter are both {sign!r}: give the delimiter too, such as delimiter=';'"
            )
        if not _is_encoding(self.encoding):
            raise Misconfigured(
                f"FileFormat: encoding is {self.encoding!r}; give one of Python's text encodings, such as 'cp1252'"
            )
        if self.zone and not is_zone(self.zone):
            raise Misconfigured(
                f"FileFormat: zone is {self.zone!r}; give a zone of the IANA database, such as 'Europe/Berlin'"
            )

    @property
    def time_zone(self) -> str:
        """The zone of times without one."""
        return self.zone or "UTC"


@lru_cache(maxsize=64)
def _is_encoding(name: str) -> bool:
    try:
        # Codecs such as `zlib` are no text encodings, and `idna` cannot be decoded piece by piece.
        return codecs.getincrementaldecoder(name)().decode("a".encode(name), final=True).startswith("a")
    except Exception:
        return False


@lru_cache(maxsize=64)
def is_zone(name: str) -> bool:
    """Whether a name is one of a time zone."""
    # Asking Polars starts threads, which a fork after an import lacks: not for the usual one.
    if name == "UTC":
        return True
    try:
        # Polars lacks a few: `localtime`, `Factory`.
        return bool(ZoneInfo(name)) and pl.select(pl.lit(datetime(1970, 1, 1)).dt.replace_time_zone(name)).height == 1  # noqa: DTZ001
    except (KeyError, OSError, ValueError, pl.exceptions.PolarsError):
        return False
