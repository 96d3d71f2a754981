"""Write the changes of upsert tables to append tables beside them: each key's row before and after each batch.

Changes are computed before the commit record is written, from the batch's staged rows and the table after the previous batch.
A repeated batch thus computes the same changes. They are committed like the rows of any append table.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import polars as pl

from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import CHANGE, CHANGED_AT, IS_NEW, OutputTable, before, name_of_changes
from keyfold.keyed.running.commit import hash_of
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.merging import rows_before
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.place import Place
from keyfold.times import BEGINNING

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
                reached("changes: written")
    return with_changes


def _groups(staged: Sequence[WrittenFile]) -> Iterator[list[WrittenFile]]:
    """Divide a batch's files into groups that fit into memory. No two files of a batch have rows of the same key."""
    group: list[WrittenFile] = []
    for file in staged:
        if group and sum(one.rows for one in group) + file.rows > _ROWS_A_FILE:
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
