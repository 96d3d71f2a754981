"""Check a stream: every row is accounted for, files have its columns, few rows are quarantined and no file is bad as a whole."""

from collections.abc import Mapping, Sequence
from functools import partial

import dagster as dg
import polars as pl
from deltalake import DeltaTable

from keyfold import ingestion
from keyfold.dagster.assets.checks import ERROR, WARN, Check, Finding, asset_checks
from keyfold.dagster.assets.previews import quarantine_metadata, reasons_of
from keyfold.dagster.assets.shown import StreamAssets
from keyfold.dagster.plain_text import plain
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import NotFound
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.drift import find_drift, newest_files
from keyfold.ingestion.ingest_records import IngestDone
from keyfold.ingestion.landing import landing_folder
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.lakehouse.presence import absent_files
from keyfold.lakehouse.reading import count_rows, scan_table
from keyfold.storage.place import Place
from keyfold.stream import Stream

TRAILING_RUNS = 20
_LONGEST_REASON = 300
_MOST_NAMED = 3
_FEW_LINES = 10
"""A file with fewer bad lines is not called bad as a whole."""


def stream_checks(shown: StreamAssets, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetChecksDefinition:
    """Build the checks of a stream's event table; that every row is accounted for is blocking."""
    stream = shown.stream
    checks = [
        Check(
            "every_row_is_accounted_for",
            "Rows read = rows in the event table + rows in quarantine + dropped duplicates. The journal has the counts of rows read "
            "and duplicates; the other two are counted in the tables.",
            lambda lakehouse: account_for_rows(lakehouse, stream),
            blocking=True,
        ),
        Check(
            "landing_files_have_the_stream_s_columns",
            "The newest files have no column that the stream does not know.",
            lambda lakehouse: find_unknown_columns(stream, landing_folder(lakehouse, stream.name)),
        ),
        Check(
            "few_rows_are_quarantined",
            f"At most {shown.most_quarantined:.0%} of the rows of the last batches, and of the newest, were quarantined; no file was "
            "unreadable or bad as a whole.",
            partial(find_quarantined, shown=shown),
            blocking=shown.blocking,
        ),
    ]
    return asset_checks(translator.get_asset_key(f"events.{stream.name}"), checks, pool=f"stream_{stream.name}")


def account_for_rows(lakehouse: Lakehouse, stream: Stream) -> Finding:
    """Compare the rows that ingest has read with those in its tables, each side counted independently.

    Raises:
        KeyfoldError: a table is missing, so that the check cannot be evaluated.
    """
    tables = [lakehouse.events(stream.name), lakehouse.quarantine(stream.name)]
    for table in tables:
        if not DeltaTable.is_deltatable(str(table)):
            raise NotFound(f"{table} does not exist; materialize the event table first")
    # All counts are of the same batch, since ingest may run meanwhile.
    snapshot = ingestion.consistent_tables(lakehouse, stream.name)
    totals = snapshot.record.totals if snapshot else ingestion.IngestCounts()
    versions = [snapshot.tables[name].version() if snapshot else None for name in ("events", "quarantine")]
    accepted, quarantined = (_count_rows(table, version) for table, version in zip(tables, versions, strict=True))
    faults = [
        f"{rows:,} rows are in {table}, but {counted:,} were counted"
        for table, rows, counted in (
            (f"events.{stream.name}", accepted, totals.accepted),
            (f"quarantine.{stream.name}", quarantined, totals.quarantined),
        )
        if rows != counted
    ]
    for table, version in zip(tables, versions, strict=True):
        # The table's log also counts the rows of files that are missing.
        absent = absent_files(table, DeltaTable(str(table), version=version))
        faults += [f"{table / path} {fault}: restore it from a backup" for path, fault in absent.items()]
    parts = accepted + quarantined + totals.duplicates
    if totals.rows_read != parts:
        faults.append(
            f"{totals.rows_read:,} rows were read, but {accepted:,} + {quarantined:,} are in the tables and "
            f"{totals.duplicates:,} were duplicates"
        )
    if faults and ingestion.is_unfinished(lakehouse, stream.name):
        faults.append("the last run of ingest was interrupted: the next run finishes it")
    passed = f"all {totals.rows_read:,} rows read are accounted for" if totals.rows_read else "no rows read yet"
    return Finding(
        not faults,
        "; ".join(faults) or passed,
        {
            "rows_read": totals.rows_read,
            "in_events": accepted,
            "in_quarantine": quarantined,
            "duplicates": totals.duplicates,
        },
        ERROR,
    )


def _count_rows(table: Place, version: int | None) -> int:
    """Count the rows of a table's version, including rows erased by `keyfold erase`."""
    return count_rows(table, version) + erased_rows(table)


def find_quarantined(lakehouse: Lakehouse, shown: StreamAssets) -> Finding:
    """Compare the quarantined rows of the last batches with all their rows, and look for files that are bad as a whole."""
    stream = shown.stream
    batches = ingest_journal(lakehouse, stream.name).recent(TRAILING_RUNS)
    with_rows = [batch for batch in batches if batch.counts.rows_read]
    if not with_rows:
        return Finding(True, "no rows in the last batches")
    shares, share = _share(batches)
    _, newest_share = _share(with_rows[-1:])
    if not sum(batch.counts.quarantined for batch in with_rows):
        return Finding(True, shares)
    path = lakehouse.quarantine(stream.name)
    rows = scan_table(path).filter(pl.col("batch") >= batches[0].batch)
    unreadable, bad = _bad_files(rows)
    metadata = {"quarantine": dg.MetadataValue.text(f"keyfold show quarantine.{stream.name}")}
    metadata |= quarantine_metadata(path, stream)
    if max(share, newest_share) <= shown.most_quarantined and not unreadable and not bad:
        return Finding(True, shares, metadata)
    files = [f"{plain(name.rpartition('/')[2])} is unreadable" for name in unreadable[:_MOST_NAMED]]
    files += [f"{plain(name.rpartition('/')[2])} is bad as a whole" for name in bad[:_MOST_NAMED]]
    more = len(unreadable) + len(bad) - len(files)
    files += [f"{more:,} more files are" if more > 1 else "one more file is"] if more > 0 else []
    reasons = [
        f"{plain(reason or '', _LONGEST_REASON)} ({count:,})"
        for reason, count in reasons_of(rows).head(_MOST_NAMED).iter_rows()
    ]
    return Finding(
        False,
        f"{'; '.join([*files, shares])}, most often for: {'; '.join(reasons)}. See `keyfold show quarantine.{stream.name}`, and fix "
        "the source or the stream's columns",
        metadata,
        shown.severity or (ERROR if unreadable or bad else WARN),
    )


def _share(batches: Sequence[IngestDone]) -> tuple[str, float]:
    quarantined = sum(batch.counts.quarantined for batch in batches)
    rows = quarantined + sum(batch.counts.accepted for batch in batches)
    return (
        f"{quarantined:,} of {rows:,} rows of the last {len(batches)} batches were quarantined",
        quarantined / max(rows, 1),
    )


def _bad_files(rows: pl.LazyFrame) -> tuple[list[str], list[str]]:
    """Return files that were rejected as a whole, and those most of whose lines were, up to the last of these; newest first."""
    files = rows.filter(pl.col("file").is_not_null(), ~pl.col("file").str.starts_with("kafka://"))
    lines = files.group_by("file").agg(
        bad=pl.col("line").count(),
        last=pl.col("line").max(),
        is_unreadable=pl.col("line").has_nulls(),
        batch=pl.col("batch").max(),
    )
    newest = lines.sort("batch", "file", descending=[True, False]).collect(engine="streaming")
    mostly_bad = newest.filter(
        ~pl.col("is_unreadable"), pl.col("bad") >= _FEW_LINES, pl.col("bad") >= pl.col("last") // 2
    )
    return newest.filter("is_unreadable")["file"].to_list(), mostly_bad["file"].to_list()


def find_unknown_columns(stream: Stream, landing: Place) -> Finding:
    """Compare the newest files' columns with those of the stream."""
    if not landing.is_dir():
        return Finding(True, "no landing folder")
    newest = newest_files(stream, landing)
    if not newest:
        return Finding(True, "no files in the landing folder")
    unknown: Mapping = find_drift(stream, newest, landing).unknown
    differences = [
        f"{plain(file.name)} has {_columns(stream, names)}, unknown to {stream.name}" for file, names in unknown.items()
    ]
    return Finding(
        not unknown,
        "; ".join(differences) or f"the newest {len(newest)} files have no column that {stream.name} does not know",
    )


def _columns(stream: Stream, names: Sequence[str]) -> str:
    # In a file without a header, the first row's values are taken for names, and may be private.
    if stream.private:
        return f"{len(names):,} {'column' if len(names) == 1 else 'columns'}"
    return ", ".join(map(plain, names))
