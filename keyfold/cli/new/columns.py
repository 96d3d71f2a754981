"""Infer the type of each raw column from all rows of a sample; only types that ingest would accept are proposed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from keyfold.cli.new.names import words
from keyfold.cli.new.sample import Sample
from keyfold.cli.new.time_shapes import ISO, TimeShape, find_time_shape
from keyfold.stream import TIMESTAMP
from keyfold.whole_numbers import whole_numbers

MARKS = ("NA", "N/A", "n/a", "null", "NULL", "None", "NaN", "nan", "-", "--", "?")
"""Texts that mean a missing value if the rest of the column are numbers or times."""

_LEADING_ZERO = r"^[+-]?0\d"
_INTEGER = r"^-?(?:0|[1-9]\d*)$"
_REAL = r"^-?(?:(?:0|[1-9]\d*)\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_OFFSET = r"(?:[Zz]|[+-]\d\d:?(?:\d\d)?)$"
_CODE = r"^\d+[eE]\d+$"
"""Some programs write 1e3 for 1000; but if most values of a column look like this, they are codes."""
_FEW = 3
"""Number of values from which one may be invalid; two are too few to tell which one is wrong."""

_FLOAT_DIGITS = 17
"""Number of digits that identify every float; numbers with more digits are rounded."""

_NOT_READ = "ingest reads no binaries, days or integers of more than 64 bits: it is left out"
_ID_WORDS = frozenset(("id", "key", "code", "uuid", "guid", "customer", "account"))


@dataclass(frozen=True)
class RawColumn:
    """A raw column and its inferred type.

    Attributes:
        raw: its name in files.
        kind: its type in the event table; None if ingest cannot read it.
        values: the sample's values, cast to that type or a similar one; NULL if missing or invalid.
        time: the format of its times, as in `Source.time`.
        marks: its texts that mean a missing value.
        notes: notes for the user.
        misfits: number of values that are not of this type.
        json: whether it is kept as JSON text.
    """

    raw: str
    kind: pa.DataType | None
    values: pl.Series
    time: str = ISO
    marks: Sequence[str] = ()
    notes: Sequence[str] = ()
    misfits: int = 0
    json: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every row of the sample has a value."""
        return not self.values.null_count()

    @property
    def is_time(self) -> bool:
        """Whether its values are times."""
        return self.kind == TIMESTAMP


def propose_columns(sample: Sample) -> list[RawColumn]:
    """Propose the columns of a sample, in the order of the file."""
    proposed = []
    for name, values in sample.columns.items():
        if name in sample.kept:
            proposed.append(RawColumn(name, pa.string(), values, notes=(sample.kept[name],), json=True))
            continue
        column = _propose(name, values, is_csv=sample.format == "csv")
        if odd := sample.odd.get(name):
            note = f"{odd:,} of its values {'is' if odd == 1 else 'are'} of another type than the others"
            column = replace(column, notes=(*column.notes, note), misfits=column.misfits + odd)
        proposed.append(column)
    # `missing` applies to all columns of a stream, so the marks of one column are missing values in the others too.
    marks = sorted({mark for column in proposed for mark in column.marks})
    return [_without(column, marks) for column in proposed] if marks else proposed


def _without(column: RawColumn, marks: Sequence[str]) -> RawColumn:
    """Replace these texts by NULL in a text column, since `missing` of a stream applies to all its columns."""
    if column.values.dtype != pl.String or column.json:
        return column
    is_marked = column.values.str.strip_chars().is_in(list(marks)).fill_null(value=False)
    return replace(column, values=column.values.set(is_marked, None))


def _propose(name: str, values: pl.Series, *, is_csv: bool) -> RawColumn:
    dtype = values.dtype
    if dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
        dtype = values.dtype
    there = values.drop_nulls()
    if dtype == pl.Null or (there.is_empty() and dtype != pl.Object):
        blank = pl.Series(name, [None] * len(values), dtype=pl.String)
        return RawColumn(name, pa.string(), blank, notes=("no row has a value: its type is a guess",))
    if dtype == pl.String:
        return _of_text(name, values, is_csv=is_csv)
    if dtype.is_integer() or dtype.is_float() or dtype.is_decimal():
        return _of_numbers(name, values, there)
    kind = None
    if dtype == pl.Boolean:
        kind = pa.bool_()
    elif isinstance(dtype, pl.Datetime):
        kind = TIMESTAMP
    elif dtype == pl.List(pl.String):
        kind = pa.list_(pa.string())
    notes = () if kind else (_NOT_READ,)
    return RawColumn(name, kind, values, notes=notes)


def _of_numbers(name: str, values: pl.Series, there: pl.Series) -> RawColumn:
    if found := find_time_shape(name, there, _most(there)):
        return _of_times(name, values, there.is_not_null(), found)
    if values.dtype.is_float():
        return RawColumn(name, pa.float64(), values)
    misfits = there.filter(whole_numbers(there, pl.Int64()).is_null())
    if values.dtype.is_decimal() and (misfits != misfits.round()).any():
        return RawColumn(name, pa.float64(), values.cast(pl.Float64), notes=_rounded(there.cast(pl.String)))
    if len(misfits) * 2 > len(there):
        return RawColumn(name, None, values, notes=(_NOT_READ,))
    whole = whole_numbers(values, pl.Int64())
    return RawColumn(name, pa.int64(), whole, notes=_misfits(misfits, "not an integer of 64 bits"))


def _of_text(name: str, values: pl.Series, *, is_csv: bool) -> RawColumn:
    stripped = values.str.strip_chars()
    is_marked = stripped.is_in(list(MARKS)) & stripped.is_not_null()
    real = stripped.set(is_marked, None)
    there = real.drop_nulls()
    marks = tuple(sorted(set(stripped.filter(is_marked).to_list())))
    if there.is_empty():
        return RawColumn(name, pa.string(), values)
    most = _most(there)
    if found := find_time_shape(name, there, most):
        column = _of_times(name, real, real.is_not_null(), found)
        return replace(column, marks=marks)
    # JSON and Parquet have types, and ingest does not convert their texts to numbers.
    found = (_truth(name, real, there) or _number(name, real, there, most)) if is_csv else None
    if found is None:
        return RawColumn(name, pa.string(), values, notes=_why_text(name, there) if is_csv else ())
    return replace(found, marks=marks)


def _most(there: pl.Series) -> int:
    """Return how many values may be invalid: 10 %, and at least one of three or more.

    Real files have bad lines, which must not turn a column of times into text.
    """
    return max(len(there) // 10, int(len(there) >= _FEW))


def _truth(name: str, values: pl.Series, there: pl.Series) -> RawColumn | None:
    if not there.str.to_lowercase().is_in(["true", "false"]).all():
        return None
    return RawColumn(name, pa.bool_(), values.str.to_lowercase() == "true")


def _number(name: str, values: pl.Series, there: pl.Series, most: int) -> RawColumn | None:
    if _why_text(name, there) or there.str.contains(_CODE).sum() * 2 > len(there):
        return None
    for kind, pattern, dtype in ((pa.int64(), _INTEGER, pl.Int64), (pa.float64(), _REAL, pl.Float64)):
        misfits = there.filter(~there.str.contains(pattern))
        # A misfit with digits, such as 85123A, is a code and not an error, so the column is text.
        if len(misfits) <= most and not misfits.str.contains(r"\d").any():
            numbers = values.set(~values.str.contains(pattern), None).cast(dtype, strict=False)
            notes = (*_misfits(misfits, "not a number"), *(_rounded(there) if kind == pa.float64() else ()))
            return RawColumn(name, kind, numbers, notes=notes)
    return None


def _rounded(there: pl.Series) -> tuple[str, ...]:
    """Note that precision is lost if these numbers become floats."""
    digits = there.str.replace(r"[eE].*$", "").str.replace(r"(\.\d*?)0+$", "$1").str.replace_all(r"\D", "")
    most = digits.str.strip_chars_start("0").str.len_chars().max()
    if not isinstance(most, int) or most <= _FLOAT_DIGITS:
        return ()
    return (f"its numbers have up to {most} digits, of which a float keeps 15: the others are rounded",)


def _why_text(name: str, there: pl.Series) -> tuple[str, ...]:
    """Say why a column of digits is text; empty if it is numbers."""
    digits = there.filter(there.str.contains(r"^[+-]?\d+(?:\.\d+)?$"))
    if len(digits) * 2 <= len(there):
        return ()
    if digits.str.contains(_LEADING_ZERO).any():
        return ("its numbers have leading zeros, so they stay text",)
    if (digits.str.contains(_INTEGER) & digits.cast(pl.Int64, strict=False).is_null()).any():
        return ("its numbers have too many digits, so they stay text",)
    if digits.str.contains(".", literal=True).any() and _ID_WORDS & set(words(name)):
        return ("its numbers identify things, so they stay text",)
    return ()


def _of_times(name: str, values: pl.Series, is_there: pl.Series, found: TimeShape) -> RawColumn:
    misfits = values.drop_nulls().filter(found.times.is_null())
    notes = list(_misfits(misfits, "not a time"))
    if found.other:
        notes.append(
            f"its times are read as {found.shape} and could as well be {found.other}: correct it in `sources` if needed"
        )
    if found.shape == ISO and values.dtype == pl.String:
        text = values.drop_nulls().str.contains(_OFFSET)
        if not text.any():
            notes.append("its times name no offset and are taken as UTC")
    rows = pl.Series(name, [None] * len(values), dtype=pl.Datetime("us", "UTC"))
    where = values.is_not_null().arg_true()
    return RawColumn(
        name,
        TIMESTAMP,
        rows.scatter(where, found.times.cast(rows.dtype)),
        found.shape,
        notes=tuple(notes),
        misfits=len(misfits),
    )


def _misfits(misfits: pl.Series, what: str) -> tuple[str, ...]:
    if misfits.is_empty():
        return ()
    are = "value is" if len(misfits) == 1 else "values are"
    return (f"{len(misfits):,} {are} {what}, such as {str(misfits[0])[:40]!r}: such rows go to quarantine",)
