"""Keep the databases of Dagster's events open while a run writes to them.

SQLite moves its log into the database whenever the last connection closes, which takes longer than to write an event. Dagster
closes its connections after each event, and a check writes four times.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage

_OF_ALL_RUNS = "index"
"""Dagster's name of the database of all runs' assets and checks."""


@contextmanager
def databases_kept_open(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Keep open the databases of a run's events, if they are SQLite files."""
    storage = instance.event_log_storage
    with ExitStack() as opened:
        if isinstance(storage, SqliteEventLogStorage):
            # Creates the run's database.
            storage.get_logs_for_run(run_id, limit=1)
            for name in (_OF_ALL_RUNS, run_id):
                connection = opened.enter_context(closing(sqlite3.connect(storage.path_for_shard(name))))
                # SQLite opens the files at the first query.
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield
