"""Write changes of upsert tables, and commit the tables of a batch from its commit record. Each commit is idempotent: it has a Delta transaction id."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import polars as pl
from pyarrow import types

from keyfold.errors import IncompatibleState
from keyfold.keyed.generation.batch_records import KeyedDone, KeyedPlan, Span
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.row_times import within
from keyfold.keyed.job.tables import CHANGE, CHANGED_AT, IS_NEW, OutputTable, before, name_of_changes
from keyfold.keyed.rows.hashing import key_hash
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.file_changes import replace_rows
from keyfold.lakehouse.leaves import HashOf
from keyfold.lakehouse.merging import merge_files, rows_before
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.runners import Runners
from keyfold.storage.place import Place
from keyfold.times import BEGINNING


def commit(runners: Runners, job: KeyedJob, generation: Generation, record: KeyedDone) -> None:
    """Commit every table of a batch; commits that exist are skipped."""
    fail_point("commit: before")
    for number, table in enumerate(job.tables):
        if number:
            fail_point("commit: one table")
        files, path = record.tables.get(table.name, ()), generation.table(table.name)
        application = f"{generation.identity}/{table.name}"
        if record.replaced is not None and table.name in record.replaced.tables:
            which = rows_of_span(job, table, record.replaced)
            replace_rows(path, which, files, application, record.batch, record.replaced.note)
        elif table.mode == "append":
            append_files(path, files, application, record.batch)
        else:
            merge_files(runners, path, files, table.key, application, record.batch, hash_of(table))
    fail_point("commit: after")


def rows_of_span(job: KeyedJob, table: OutputTable, span: Span) -> pl.Expr:
    """Return whether a row of a table belongs to a span, by the times that the job declares.

    Raises:
        IncompatibleState: the job does not say to which time a row of the table belongs.
    """
    if job.row_times is None or (time := job.row_times.of_table(table)) is None:
        raise IncompatibleState(
            f"job {job.name} does not say to which time a row of {table.name} belongs; let it do so (`row_times`), and run it again"
        )
    return within(time, span.since, span.until)


def hash_of(table: OutputTable) -> HashOf | None:
    """Return the hash that divides an upsert table; None for a key that it does not support.

    A key with a time needs no hash: statistics of files already exclude the files of other times.
    """
    kinds = [table.schema.field(name).type for name in table.key]
    is_hashable = all(types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) for kind in kinds)
    return key_hash if is_hashable else None


def forget(job: KeyedJob, generation: Generation, batch: int, retained: int) -> None:
    """Remove files that no later batch needs, after a batch is committed.

    Args:
        batch: the batch; its stored responses of external services are removed.
        retained: number of batches whose staged upsert rows and state stay readable.
    """
    # Until a batch is committed it may be repeated, and the repeated batch must get the same responses.
    (generation.responses / f"{batch:09d}").remove_tree(missing_ok=True)
    oldest, before = generation.journal.done(batch - retained + 1), generation.journal.done(batch - retained)
    if oldest is None or before is None:
        return
    for table in job.tables:
        if table.mode == "upsert":
            for file in before.tables.get(table.name, ()):
                (generation.table(table.name) / file.path).unlink(missing_ok=True)
    # Only batches before the oldest one that is kept need these: a partition's manifest is replaced by later ones only.
    for name in oldest.dropped_parts:
        (generation.parts / name).unlink(missing_ok=True)
    for name in before.manifests.keys() - oldest.manifests.keys():
        (generation.manifests / name).unlink(missing_ok=True)


def remove_strays(generation: Generation, record: KeyedDone) -> None:
    """Remove state that an earlier attempt at a committed batch wrote.

    Not before the batch is committed: a run that lost its lease may still commit its own attempt.
    """
    own = {name for name in record.manifests if _batch_of(name) == record.batch}
    new = {label: name for label, name in files_of(record).items() if name in own}
    manifests = read_manifests(generation.manifests, new).values()
    # Parts of a batch are named by manifests of that batch, or of no batch.
    named = own.union(*(Manifest.unpack(manifest).files for manifest in manifests))
    for file in [*generation.parts.files_below(), *generation.manifests.files_below()]:
        if _batch_of(file.path.name) == record.batch and file.path.name not in named:
            file.path.unlink(missing_ok=True)


def _batch_of(name: str) -> int:
    return int(name.partition("-")[0])


_ROWS_A_FILE = 1 << 20
_FIRST = BEGINNING + timedelta(microseconds=1)
"""`changed_at` before there is a watermark: later than `BEGINNING`, so that no change is late."""


def write_changes(
    job: KeyedJob, generation: Generation, plan: KeyedPlan, files: dict[str, list[WrittenFile]]
) -> dict[str, list[WrittenFile]]:
    """Write the changes that a batch makes in upsert tables.

    Args:
        generation: its generation; the tables have all earlier batches, and not this one.
        plan: the plan of the batch.
        files: the files that the batch wrote, by table.

    Returns:
        `files`, with the files of the changes.
    """
    tables = {table.name: table for table in job.tables}
    with_changes = dict(files)
    for table in job.tables:
        if table.changes and (staged := [file for file in files.get(table.name, ()) if file.rows]):
            name = name_of_changes(table.name)
            folder, schema = generation.table(name), tables[name].schema
            written: list[WrittenFile] = []
            for group in _groups(staged):
                changes = _changes(table, generation.table(table.name), group, plan.batch, plan.clock.watermark)
                written += [write_data_file(part, folder, schema) for part in changes.iter_slices(_ROWS_A_FILE)]
            if written:
                with_changes[name] = written
                fail_point("changes: written")
    return with_changes


def _groups(staged: Sequence[WrittenFile]) -> Iterator[list[WrittenFile]]:
    """Divide a batch's files into groups that fit into memory. No two files of a batch have rows of the same key."""
    group: list[WrittenFile] = []
    for file in staged:
        if group and sum(grouped.rows for grouped in group) + file.rows > _ROWS_A_FILE:
            yield group
            group = []
        group.append(file)
    yield group


def _changes(
    table: OutputTable, folder: Place, staged: Sequence[WrittenFile], batch: int, watermark: datetime
) -> pl.DataFrame:
    key, values = list(table.key), [name for name in table.schema.names if name not in table.key]
    after = scan_in_columns([folder / file.path for file in staged], table.schema)
    old = rows_before(folder, staged, key, hash_of(table)).select(
        *key, pl.lit(value=False).alias(IS_NEW), *(pl.col(name).alias(before(name)) for name in values)
    )
    # A step may write a row again with the same values, which is no change.
    is_other = pl.any_horizontal(pl.col(IS_NEW), *(pl.col(name).ne_missing(pl.col(before(name))) for name in values))
    both = after.join(old, on=key, how="left").with_columns(pl.col(IS_NEW).fill_null(value=True))
    changed_at = pl.lit(max(watermark, _FIRST), pl.Datetime("us", "UTC"))
    return (
        both.filter(is_other)
        .with_columns(changed_at.alias(CHANGED_AT), pl.lit(batch, pl.Int64).alias(CHANGE))
        .collect(engine="streaming")
    )
