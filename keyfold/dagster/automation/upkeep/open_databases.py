"""Keep the databases of Dagster's events open while a run writes to them.

For each event, Dagster opens a database anew: SQLAlchemy builds an engine and compiles the statement again, and SQLite moves its
log into the database when the last connection closes. That takes longer than to write the event, and a check writes four times.

This replaces a method of Dagster that is not public, `SqliteEventLogStorage._connect`; `test_open_databases` names the version
that it was written for.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import dagster as dg

_OF_ALL_RUNS = "index"
"""Dagster's name of the database of all runs' assets and checks."""


@contextmanager
def databases_kept_open(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Keep open the databases of a run's events, if they are SQLite files."""
    # Imported late, as below: loading definitions must not import SQLAlchemy.
    from dagster._core.storage.event_log import SqliteEventLogStorage  # noqa: PLC0415

    storage: Any = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        yield
        return
    engines, opened_anew, process = dict[str, Any](), storage._connect, os.getpid()
    for name in (_OF_ALL_RUNS, run_id):
        # Dagster's own method creates the tables of a new database.
        with opened_anew(name):
            engines[name] = _engine(storage.conn_string_for_shard(name))

    def connect(name: str) -> AbstractContextManager[Any]:
        # A fork must not use its parent's connections.
        is_open = name in engines and os.getpid() == process
        return _connection(storage, engines[name]) if is_open else opened_anew(name)

    storage._connect = connect  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        # Not the method again as an attribute: the storage would refer to itself, and stay until a garbage collection.
        vars(storage).pop("_connect")
        with storage._db_lock:
            for engine in engines.values():
                engine.dispose()


def _engine(address: str) -> Any:
    import sqlalchemy as db  # noqa: PLC0415
    from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS  # noqa: PLC0415

    # Dagster's lock lets in one thread at a time, so that all can share one connection.
    options = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False}
    return db.create_engine(address, poolclass=db.StaticPool, connect_args=options)


@contextmanager
def _connection(storage: Any, engine: Any) -> Iterator[Any]:
    with storage._db_lock, engine.begin() as connection:
        yield connection
