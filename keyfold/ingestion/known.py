"""All landing files that were ever read: those in the journal's records, and a table of earlier ones.

FOLDER/files/known-000000123.parquet   the files of batches 0 to 123

The table grows with the number of files, not of runs. It is rewritten before the journal deletes the records.
"""

import io
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from keyfold.errors import Damaged, first_line
from keyfold.ingestion.erased_names import erased_name, is_erased
from keyfold.ingestion.ingest_records import AdmittedFile, IngestDone, IngestPlan
from keyfold.journal import Journal
from keyfold.lakehouse.reading import read_parquet
from keyfold.storage.place import Place

BATCHES_BETWEEN = 32
"""Maximum number of batches that are read from the journal's records: fewer than a journal keeps."""

_MANY = 1_000
"""Files of a run that are not left to the journal's records, whose reading takes a hundred times as long as that of the table."""

IngestJournal = Journal[IngestPlan, IngestDone]

_SCHEMA = {
    "source": pl.String,
    "path": pl.String,
    "size": pl.Int64,
    "modified_at": pl.Int64,
    "changed_at": pl.Int64,
    "fingerprint": pl.String,
}
_REFUSED = "refused"


class KnownFile(NamedTuple):
    """The version of a landing file that was read, or refused and only reported; see `AdmittedFile`."""

    size: int
    modified_at: int
    changed_at: int
    fingerprint: str

    @property
    def is_refused(self) -> bool:
        """Whether it was not read."""
        return self.fingerprint == _REFUSED


def known_file(file: AdmittedFile) -> KnownFile:
    """Return what is known of a file once it was read."""
    return KnownFile(file.size, file.modified_at, file.changed_at, _REFUSED if file.refused else file.fingerprint)


class _KnownByEitherName(dict[str, KnownFile]):
    """Files by path, some of which were replaced by `erased_name`."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the file of a path, or of its erased name. If both exist, the path was read later."""
        return super().get(key) or super().get(erased_name(key), default)


def versions(files: pl.DataFrame, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
    """Return the known versions of files by path; those of some paths alone, if they are given.

    Args:
        files: the files of a source, as `KnownFiles.of` returns them.
        paths: the paths.
    """
    if paths is not None:
        files = files.filter(pl.col("path").is_in([*paths, *map(erased_name, paths)]))
    rows = map(KnownFile._make, files.select(KnownFile._fields).iter_rows())
    by_path = dict(zip(files["path"], rows, strict=True))
    return _KnownByEitherName(by_path) if any(map(is_erased, by_path)) else by_path


def read_as_they_are(files: pl.DataFrame) -> Set[tuple[str, int, int, int]]:
    """Return paths, sizes, modification and change times of the files that were read and not only reported."""
    read = files.filter(pl.col("fingerprint") != _REFUSED)
    return frozenset(read.select("path", "size", "modified_at", "changed_at").iter_rows())


class KnownFiles:
    """The files of a stream that were read, by source and path."""

    def __init__(self, folder: Place, journal: IngestJournal, label: str, remedy: str = "") -> None:
        self._folder = folder / "files"
        self._journal = journal
        self._label, self._remedy = label, remedy

    def of(self, source: str) -> pl.DataFrame:
        """Return the versions of a source's files that were read, or refused and only reported: see `versions`.

        Raises:
            KeyfoldError: part of the records is gone.
        """
        return self._all().filter(pl.col("source") == source)

    def all(self) -> dict[str, tuple[str, ...]]:
        """Return the paths of all files, by source.

        Raises:
            KeyfoldError: part of the records is gone.
        """
        by_source = self._all().group_by("source", maintain_order=True).agg("path")
        return {source: tuple(paths) for source, paths in by_source.iter_rows()}

    def note(self, source: str, touched: Mapping[str, AdmittedFile]) -> None:
        """Record the new times of files whose content has not changed, so that it is not compared again."""
        if touched:
            self._write({(source, path): file for path, file in touched.items()})

    def rename(self, holds: Callable[[str], bool]) -> int:
        """Replace paths that hold a value by `erased_name`, in the table and in the journal, and return their number.

        Call it under the lock of ingest, and only if no planned batch is unfinished.
        """
        renamed_paths: set[tuple[str, str]] = set()

        def new(source: str, path: str) -> str:
            if is_erased(path) or not holds(path):
                return path
            renamed_paths.add((source, path))
            return erased_name(path)

        table, after = self._table()
        # The table first. If this is interrupted in between, a file is still known by one of its names.
        renamed = [new(source, path) for source, path in table.select("source", "path").iter_rows()]
        if renamed_paths:
            # A file that was erased before and read again has both names: the later version counts.
            both = table.with_columns(pl.Series("path", renamed), is_new=pl.Series(renamed) != table["path"])
            latest = both.sort("is_new").unique(["source", "path"], keep="last").drop("is_new")
            self._store(latest.sort("source", "path"), after)
        plans, records = list[IngestPlan](), list[IngestDone]()
        for batch in self._journal.kept():
            plan, record = self._journal.plan(batch), self._journal.done(batch)
            if plan is None or record is None:
                continue
            files = tuple(file.model_copy(update={"path": new(plan.source, file.path)}) for file in plan.files)
            deferred = tuple(new(plan.source, path) for path in record.deferred)
            if deferred != record.deferred:
                records.append(record.model_copy(update={"deferred": deferred}))
            if files != plan.files:
                plans.append(plan.model_copy(update={"files": files}))
        # Commit records before plans, since their `deferred` says which files of a plan were not read.
        self._journal.amend(plans, records)
        return len(renamed_paths)

    def keep(self, files: int) -> None:
        """Rewrite the table if there were many batches since, or many files now. Call it before the journal is compacted."""
        last = self._journal.last_done()
        # Well before the journal deletes a record (it keeps 100), since runs may be interrupted before they get here.
        is_due = last is not None and last.batch - max(self._numbers(), default=-1) >= BATCHES_BETWEEN
        if is_due or files >= _MANY:
            self._write({})

    def _write(self, more: dict[tuple[str, str], AdmittedFile]) -> None:
        last = self._journal.last_done()
        if last is None:
            return
        self._store(self._all(more).sort("source", "path"), last.batch)

    def _all(self, more: Mapping[tuple[str, str], AdmittedFile] = MappingProxyType({})) -> pl.DataFrame:
        # Later records replace earlier ones of the same file, and `more` replaces both.
        table, after = self._table()
        latest: dict[tuple[str, str], AdmittedFile] = {}
        for plan, files in self._later(after):
            latest |= {(plan.source, file.path): file for file in files}
        latest |= more
        rows = [(source, path, *known_file(file)) for (source, path), file in latest.items()]
        new = pl.DataFrame(rows, _SCHEMA, orient="row")
        return pl.concat([table.join(new, ["source", "path"], "anti", maintain_order="left"), new])

    def _store(self, rows: pl.DataFrame, batch: int) -> None:
        content = io.BytesIO()
        rows.write_parquet(content, compression="zstd")
        self._folder.sweep() if self._folder.is_dir() else None
        (self._folder / f"known-{batch:09d}.parquet").write_durably(content.getvalue())
        # Delete old tables only now that the new one is durable.
        for number in self._numbers():
            if number < batch:
                (self._folder / f"known-{number:09d}.parquet").unlink(missing_ok=True)

    def _table(self) -> tuple[pl.DataFrame, int]:
        """Return the table, and the last batch that it covers."""
        last = self._journal.last_done()
        # A table beyond the newest commit record is of another history, as after restoring only the journal: ignore it.
        numbers = [number for number in self._numbers() if last is not None and number <= last.batch]
        if not numbers:
            return pl.DataFrame(schema=_SCHEMA), -1
        path = self._folder / f"known-{numbers[-1]:09d}.parquet"
        try:
            return read_parquet(path), numbers[-1]
        except pl.exceptions.PolarsError as error:
            raise Damaged(
                f"{self._label}: {path}, the list of files that were read, is damaged ({first_line(error)}); restore it"
                + (f", or {self._remedy}" if self._remedy else "")
            ) from error

    def _later(self, after: int) -> list[tuple[IngestPlan, list[AdmittedFile]]]:
        last = self._journal.last_done()
        later: list[tuple[IngestPlan, list[AdmittedFile]]] = []
        for batch in range(after + 1, last.batch + 1 if last else 0):
            plan, record = self._journal.plan(batch), self._journal.done(batch)
            if plan is None or record is None:
                raise Damaged(
                    f"{self._label}: it is not known which files were read, since {self._folder} and the record of batch "
                    f"{batch} in {self._journal.folder} are gone; restore the whole folder "
                    f"{self._folder.parent}, or {self._remedy}"
                )
            # Deferred files changed while they were read. They count as unknown, so a later run reads them.
            deferred = set(record.deferred)
            later.append((plan, [file for file in plan.files if file.path not in deferred]))
        return later

    def _numbers(self) -> list[int]:
        names = self._folder.glob("known-*.parquet")
        return sorted(int(path.stem.removeprefix("known-")) for path in names)
