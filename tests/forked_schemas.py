"""Types of lazy frames, for a process that forks: Polars answers with a thread that no fork has, so that forks then wait for ever."""

import os
import pickle

import polars as pl

_ASKED_HERE = pl.LazyFrame.collect_schema


def ask_forks() -> None:
    """Have types told by forks of this process from here on, which stays without that thread."""
    pl.LazyFrame.collect_schema = _told_by_a_fork  # type: ignore[method-assign]


def ask_here() -> None:
    """Have types told as usual, in a process that forks no more."""
    pl.LazyFrame.collect_schema = _ASKED_HERE  # type: ignore[method-assign]


def _told_by_a_fork(frame: pl.LazyFrame) -> pl.Schema:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writing, "wb") as told:
            pickle.dump(dict(_ASKED_HERE(frame)), told)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        content = told.read()
    os.waitpid(child, 0)
    return pl.Schema(pickle.loads(content))  # noqa: S301 - our own
