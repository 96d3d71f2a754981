"""Make one row of a key of what a call of the step writes to an upsert table: the last one that it wrote.

Several rows of a key in one call are ordinary: two sessions of it have closed, or it has expired and come again. In the order of
the step they are as if each had come in a batch of its own, so that the table does not depend on where batches end. No other
call of a batch writes rows of the key: an upsert table has the job's key in its own (`KeyedJob`), and a step writes rows of the
keys that it was called with.
"""

import polars as pl

from keyfold.errors import counted
from keyfold.keyed.calling.step_call import Called
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import AnswerError, polars_schema
from keyfold.lakehouse.merging import check_one_row_per_key


def one_row_per_key(job: KeyedJob, called: Called, keys: pl.DataFrame) -> Called:
    """Return the result of all calls for some keys, with the last row of each key of an upsert table.

    Args:
        keys: the keys that the step was called with, in the types of the state; some may repeat.

    Raises:
        AnswerError: a row of an upsert table is of another key, or lacks a value of the table's key.
    """
    tables, written_events = dict(called.tables), 0
    for table in job.own_tables:
        if table.key and (rows := tables.get(table.name)) is not None:
            if lacking := [name for name in table.key if rows[name].null_count()]:
                raise AnswerError(
                    f"the step writes rows without a value in {', '.join(lacking)} to {table.name}, which is in the table's key: "
                    "NULL equals nothing, so that no later row could replace them; fill it, or leave such rows out"
                )
            typed_keys = keys.cast({name: rows.schema[name] for name in job.key})
            strange = rows.join(typed_keys, on=job.key, how="anti").height
            if strange:
                raise AnswerError(
                    f"the step writes {counted(strange, 'row')} of keys ({', '.join(job.key)}) that it was not given to "
                    f"{table.name}: a table with one row per key has rows of the keys that have events or a row that is due"
                )
            if table.counts_written:
                written_events += int(rows.select(table.events).item() or 0)
            # To count keys takes a fiftieth of the time of leaving rows out in order, and most often there are none to leave out.
            if rows.n_unique(table.key) < rows.height:
                tables[table.name] = rows.unique(table.key, keep="last", maintain_order=True)
    return called._replace(tables=tables, written_events=written_events)


def upserted(job: KeyedJob, table: str, before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table after a batch, in memory, as its commit makes them in a lakehouse.

    Args:
        before: the rows before.
        rows: the rows that the batch wrote.

    Raises:
        InvalidData: several rows of an upsert table have one key.
    """
    (declared,) = (own_table for own_table in job.tables if own_table.name == table)
    if not declared.key:
        return pl.concat([before, rows])
    check_one_row_per_key(f"table {table}", rows, declared.key)
    return pl.concat([before.join(rows, on=declared.key, how="anti", nulls_equal=True, maintain_order="left"), rows])


def keys_of(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the keys that a step is called with; some may repeat."""
    kinds = polars_schema(job.state.schema)
    return pl.concat([state.select(job.key), events.select(pl.col(name).cast(kinds[name]) for name in job.key)])
