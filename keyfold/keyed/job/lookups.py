"""Read lookups: small tables that a step gets whole, such as products or rules.

When the driver plans a run, it reads and checks each lookup, and stores the rows in a file of the generation, which is named by
a digest of its bytes. The plan names that file. So a repeated batch gets the same rows, even if the table has changed. A changed lookup
applies from the next run on; rows that are written do not change.
"""

from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import polars as pl
import pyarrow as pa
import xxhash
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, InvalidData, NotFound
from keyfold.privacy import MASK
from keyfold.schemas import to_names, to_schema
from keyfold.storage.place import Place, to_place
from keyfold.validation import argument, declaration, never_null

_LINES = (".ndjson", ".jsonl")
_FORMS = (".parquet", ".csv", *_LINES)
_FOLDER = "lookups"
_MOST_BYTES = 256 << 20
"""Size of the largest lookup, since every worker holds it in memory. Read a larger table as a stream, with an as-of join."""


@declaration("lookup {path}")
class Lookup:
    """A small table that a job's step gets whole, as one of its inputs.

    Attributes:
        path: path of a Delta table, or of a Parquet, CSV (`.csv`) or JSON-lines (`.ndjson`, `.jsonl`) file.
        columns: columns that the step gets, with their types; a value that does not fit is refused.
        key: columns that identify a row; never NULL.
        private: columns with personal or confidential values, as of a stream.

    Example:
        >>> product = pa.schema([pa.field("item", pa.string(), nullable=False), ("price", pa.int64())])
        >>> Lookup("lookups/products.csv", product, ("item",)).key
        ('item',)
    """

    path: str
    columns: pa.Schema = argument(converter=to_schema)
    key: tuple[str, ...] = argument(converter=to_names)
    private: tuple[str, ...] = argument(converter=to_names, default=())
    _ = never_null("columns", by=("key",))

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key is empty; a lookup has one row a key")
        for field_name, names in (("key", self.key), ("private", self.private)):
            if lacking := [name for name in names if name not in self.columns.names]:
                raise ValueError(f"{field_name} names {', '.join(lacking)}, which its columns lack")

    @property
    def schema(self) -> pa.Schema:
        """The columns that it has."""
        return self.columns


class KeptLookups:
    """The lookups of a run, stored for its batches. A table is read again only after it has changed.

    Args:
        subject: name of the job in errors.
        lookups: the job's lookups, by name.
        home: the lakehouse directory, which relative paths start from.
        generation: folder of the generation.
    """

    def __init__(self, subject: str, lookups: Mapping[str, Lookup], home: Place, generation: Place) -> None:
        self._where, self._lookups, self._home, self._folder = subject, lookups, home, generation / _FOLDER
        self._seen: dict[str, tuple[_Stamp, str]] = {}

    def plan(self) -> dict[str, str]:
        """Store the current rows of each lookup; returns the names of the files.

        Call it when all batches that were planned before are finished: files of earlier plans are deleted.

        Raises:
            KeyfoldError: a table is gone or too large, lacks a column, has a value of another type, or a key twice.
        """
        planned = {name: self._kept(name, lookup) for name, lookup in self._lookups.items()}
        if planned:
            for file in self._folder.glob("*.parquet"):
                if file.name not in planned.values():
                    file.unlink(missing_ok=True)
        return planned

    def _kept(self, name: str, lookup: Lookup) -> str:
        subject = f"{self._where}: lookup {name}"
        place = _place_of(subject, lookup, self._home)
        # Before the rows are read: if the table changes in between, the next plan reads it again.
        stamp = _stamp(subject, place)
        if name in self._seen and self._seen[name][0] == stamp:
            return self._seen[name][1]
        rows = _read(f"{subject} ({place})", lookup, place)
        content = _as_parquet(rows)
        stored = f"{name}-{_digest(content)}.parquet"
        path = self._folder / stored
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.new_file() as file:
                file.write(content)
        self._seen[name] = stamp, stored
        return stored


def planned_lookups(generation: Place, planned: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Return the rows of a plan's lookups, by name.

    Raises:
        Damaged: a stored file is missing or damaged.
    """
    return {name: _kept(generation / _FOLDER / stored) for name, stored in planned.items()}


def conform_lookup(subject: str, lookup: Lookup, rows: pl.DataFrame) -> pl.DataFrame:
    """Convert rows of a lookup to its declared columns.

    Raises:
        InvalidData: a column is missing, a value does not fit its type, or a key is NULL or repeated.
    """
    if lacking := [name for name in lookup.columns.names if name not in rows.columns]:
        # In a file without a header, the first row's values are taken for names.
        there = f"{len(rows.columns)} others" if lookup.private else ", ".join(rows.columns)
        raise InvalidData(f"{subject} has no column {', '.join(lacking)}; it has {there}")
    wanted = _kinds(lookup.columns)
    columns = rows.select(list(wanted))
    try:
        rows = columns.select(pl.col(name).cast(kind) for name, kind in wanted.items())
        # Not texts: a number that was parsed need not be written as it was.
        back = rows.select(
            pl.col(name).cast(kind) for name, kind in columns.schema.items() if kind not in (pl.String, pl.Null)
        )
    except pl.exceptions.PolarsError as error:
        raise InvalidData(f"{subject} has values that do not fit its columns: {_said(lookup, error)}") from None
    # A cast silently cuts values: 1.5 to 1, and nanoseconds to microseconds. Compare the values cast back.
    if cut := [name for name in back.columns if not back[name].eq_missing(columns[name]).all()]:
        raise InvalidData(
            f"{subject} has values in {', '.join(cut)} that {', '.join(str(wanted[name]) for name in cut)} does not hold; "
            "correct the values, or give the column a type that holds them"
        )
    if without := [name for name in lookup.key if rows[name].null_count()]:
        raise InvalidData(f"{subject} has rows without a value in {', '.join(without)}, its key; fill or remove them")
    repeated = rows.filter(pl.struct(lookup.key).is_duplicated())
    if repeated.height:
        first = repeated.select(lookup.key).row(0, named=True)
        key = ", ".join(f"{name}={MASK if name in lookup.private else repr(first[name])}" for name in first)
        raise InvalidData(f"{subject} has the key {key} more than once; a lookup has one row a key")
    return rows.sort(lookup.key)


_Stamp = tuple[int, int]


def _place_of(subject: str, lookup: Lookup, home: Place) -> Place:
    is_whole = "://" in lookup.path or Path(lookup.path).is_absolute()
    place = to_place(lookup.path if is_whole else home / lookup.path)
    if not place.exists() and not _is_delta(place):
        raise NotFound(f"{subject} ({place}) is not there; put the table there, or give another path")
    return place


def _is_delta(place: Place) -> bool:
    return (place / "_delta_log").exists()


def _stamp(subject: str, place: Place) -> _Stamp:
    """Return values that change with the table: its version, or a file's size and modification time."""
    if not _is_delta(place):
        status = place.stat()
        return status.st_size, status.st_mtime_ns
    try:
        # No file has this size: a table in the place of a file is a change.
        return -1, DeltaTable(str(place)).version()
    except DeltaError as error:
        raise InvalidData(f"{subject} ({place}) cannot be read: {str(error).splitlines()[0]}") from None


def _read(subject: str, lookup: Lookup, place: Place) -> pl.DataFrame:
    try:
        if _is_delta(place):
            table = DeltaTable(str(place))
            _check_size(subject, sum(table.get_add_actions(flatten=True)["size_bytes"].to_pylist()))
            return conform_lookup(subject, lookup, pl.DataFrame(table.to_pyarrow_table()))
        form = Path(str(place)).suffix
        if form not in _FORMS:
            raise InvalidData(f"{subject} is no Delta table, and its name ends in none of {', '.join(_FORMS)}")
        _check_size(subject, place.stat().st_size)
        return conform_lookup(subject, lookup, _rows_of(form, place.read_bytes(), _kinds(lookup.columns)))
    except (DeltaError, pl.exceptions.PolarsError) as error:
        raise InvalidData(f"{subject} cannot be read: {_said(lookup, error)}") from None


def _said(lookup: Lookup, error: Exception) -> str:
    """Return the first line of an error, which may quote any value of a lookup."""
    if lookup.private:
        return f"the reason is not shown, as it may quote values of {', '.join(lookup.private)}"
    return str(error).splitlines()[0]


def _kinds(columns: pa.Schema) -> dict[str, pl.DataType]:
    return dict(pl.DataFrame(columns.empty_table()).schema)


def _rows_of(form: str, content: bytes, wanted: Mapping[str, pl.DataType]) -> pl.DataFrame:
    if form == ".parquet":
        return pl.read_parquet(content)
    # By all rows: Polars otherwise takes the types of the first hundred, and a later row may not fit them.
    if form in _LINES:
        return pl.read_ndjson(content, infer_schema_length=None)
    # Declared types where inferred ones could change values: the text 007 is not 7, and integers must not become floats.
    declared = {name: kind for name, kind in wanted.items() if kind == pl.String or kind.is_integer()}
    return pl.read_csv(content, schema_overrides=declared, infer_schema_length=None)


def _check_size(subject: str, size: int) -> None:
    if size > _MOST_BYTES:
        raise InvalidData(
            f"{subject} has {size:,} bytes, and a lookup has {_MOST_BYTES:,} at most: every worker holds it whole; read it as "
            "an input with versions, by an as-of join"
        )


def _as_parquet(rows: pl.DataFrame) -> bytes:
    """Return rows as a Parquet file. In one chunk: the bytes of equal rows do not depend on how they were read."""
    content = BytesIO()
    rows.rechunk().write_parquet(content)
    return content.getvalue()


def _digest(content: bytes) -> str:
    # Of the file, and not of rows in memory: equal rows may lie there in different ways, as after a sort.
    return xxhash.xxh3_64_hexdigest(content)


# The file's name has a digest of its bytes, so a cached frame is never out of date.
@lru_cache(maxsize=8)
def _kept(path: Place) -> pl.DataFrame:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(
            f"{path}, the stored rows of a lookup, cannot be read: {error}; restore it from a backup, or start a new generation with --full-refresh"
        ) from None
    if f"-{_digest(content)}." not in path.name:
        raise Damaged(
            f"{path}, the stored rows of a lookup, was changed: its digest is not the one in its name; restore it from a backup, or start a new generation with --full-refresh"
        )
    return pl.read_parquet(content)
