"""The changes of upsert tables, as append tables beside them: what each batch made of each key's row.

A batch's changes are written before its commit record, from its staged rows and from the table as the batch before has left
it, which is the same however often the batch is tried. They are committed as the rows of all append tables are.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import polars as pl

from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.job_tables import CHANGE, CHANGED_AT, IS_NEW, before, name_of_changes
from keyfold.keyed.job.output_table import OutputTable
from keyfold.keyed.running.commit import hash_of
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.merging import rows_before
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.place import Place
from keyfold.times import BEGINNING

_ROWS_A_FILE = 1 << 20
_FIRST = BEGINNING + timedelta(microseconds=1)
"""Of changes before a watermark is set: behind its beginning, where nothing is late."""


def write_changes(
    job: KeyedJob, generation: Generation, plan: KeyedPlan, files: dict[str, list[WrittenFile]]
) -> dict[str, list[WrittenFile]]:
    """Write what a batch changes in upsert tables; gives the batch's files, by table, with those of the changes.

    Args:
        job: whose tables.
        generation: of the job; its tables have all batches before this one, and not yet this one.
        plan: of the batch.
        files: that the batch wrote, by table.
    """
    tables = {table.name: table for table in job.tables}
    found = dict(files)
    for table in job.tables:
        if table.changes and (staged := [file for file in files.get(table.name, ()) if file.rows]):
            name = name_of_changes(table.name)
            folder, schema = generation.table(name), tables[name].schema
            written: list[WrittenFile] = []
            for group in _groups(staged):
                changes = _changes(table, generation.table(table.name), group, plan.batch, plan.clock.watermark)
                written += [write_data_file(part, folder, schema) for part in changes.iter_slices(_ROWS_A_FILE)]
            if written:
                found[name] = written
                reached("changes: written")
    return found


def _groups(staged: Sequence[WrittenFile]) -> Iterator[list[WrittenFile]]:
    """Cut a batch's files into groups that fit in memory: no two files of a batch have rows of one key."""
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
    is_other = pl.any_horizontal(pl.col(IS_NEW), *(pl.col(name).ne_missing(pl.col(before(name))) for name in values))
    both = after.join(old, on=key, how="left").with_columns(pl.col(IS_NEW).fill_null(value=True))
    changed_at = pl.lit(max(watermark, _FIRST), pl.Datetime("us", "UTC"))
    return (
        both.filter(is_other)
        .with_columns(changed_at.alias(CHANGED_AT), pl.lit(batch, pl.Int64).alias(CHANGE))
        .collect(engine="streaming")
    )
