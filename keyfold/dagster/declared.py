"""The streams and jobs that a code location has assets of, for commands in a code location that is no Keyfold project.

Every stream and job of `keyfold_assets` is noted here when definitions load, whatever makes them: Python, YAML, or a function.
"""

from collections.abc import Iterable
from importlib import import_module

from dagster.components.definitions import LazyDefinitions

from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import Stream

STREAMS: dict[str, Stream] = {}
"""Streams by name."""

JOBS: dict[str, KeyedJob] = {}
"""Jobs by name."""


def note(streams: Iterable[Stream], jobs: Iterable[KeyedJob]) -> None:
    """Note streams and jobs that definitions have assets of. Dagster refuses two assets of one name, and so two jobs."""
    STREAMS.update({stream.name: stream for stream in streams})
    JOBS.update({job.name: job for job in jobs})


def load(module: str) -> None:
    """Import the module of a code location, and call its functions that Dagster calls for definitions (`@dg.definitions`)."""
    for value in list(vars(import_module(module)).values()):
        if isinstance(value, LazyDefinitions):
            value()
