"""What the command line has of a terminal: summaries, errors as one message, progress, signals."""

import errno
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from keyfold.cli.plain_text import message
from keyfold.errors import KeyfoldError, first_line
from keyfold.journal.progress import Progress
from keyfold.storage.reachable import check_reachable
from keyfold.storage.remote_path import StoreError
from keyfold.storage.store_failures import failure_of_store
from keyfold.times import to_iso

_OF_THE_DISK = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""What a person can put right: read-only, another user's, full, broken."""


def report(summary: dict[str, Any], as_json: bool, text: str) -> None:
    """Print a summary as one line of JSON, or the text that says it to people."""
    if as_json:
        print(json.dumps(summary, default=_as_json))
    else:
        Console().print(message(text), soft_wrap=True)


@contextmanager
def failures() -> Iterator[None]:
    """Show what a person can put right as one message, without a traceback; the exit code is 1."""
    try:
        yield
    except KeyfoldError as error:
        told = str(error)
    except Exception as error:
        told = _plainly(error)
        if told is None:
            raise  # a fault of ours, whose traceback is wanted
    else:
        return
    print_error(told)
    raise typer.Exit(1)


def print_error(text: str) -> None:
    """Print an error's message on standard error."""
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message(text)), soft_wrap=True)


@contextmanager
def usage_faults() -> Iterator[None]:
    """Show what is wrong with an option's value as bad usage; the exit code is 2."""
    try:
        yield
    except KeyfoldError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on standard error where a terminal is attached, and nothing elsewhere."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[shown]}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None, shown="planning")

        def report_progress(progress: Progress) -> None:
            bar.update(task, total=max(progress.total, 1), completed=progress.done, shown=progress.describe())

        yield report_progress


def warn(warnings: Iterable[str]) -> None:
    """Print what people should know of on standard error, a line each."""
    for warning in warnings:
        Console(stderr=True).print(Text.assemble(("warning:", "bold yellow"), " ", message(warning)), soft_wrap=True)


def stop_on_signal() -> threading.Event:
    """An event that SIGINT and SIGTERM set, so that what runs for long ends where it can."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _plainly(error: Exception) -> str | None:
    """What a library's or the system's error says to people; None of one that is a fault of ours."""
    # Here: `keyfold --help` loads no Delta.
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    if isinstance(error, OSError | DeltaError) and (failed := failure_of_store(error)) is not None:
        return _of_the_store(failed)
    if isinstance(error, DeltaError):
        return f"a table could not be read or written: {first_line(error)}; mend that and run it again"
    if not isinstance(error, OSError):
        return None
    # Of Polars' and Delta's own, which have the number in their text alone.
    if error.errno is None and "(os error " in str(error):
        return first_line(error)
    return f"{error.filename or 'the disk'}: {error.strerror}" if error.errno in _OF_THE_DISK else None


def _of_the_store(error: StoreError) -> str:
    """What is wrong with the settings, where the store still does not answer; or else what it said."""
    try:
        check_reachable(error.place)
    except KeyfoldError as found:
        return str(found)
    return str(error)


def _as_json(value: Any) -> str:
    if isinstance(value, datetime):
        return to_iso(value)
    return value.to_dicts() if hasattr(value, "to_dicts") else str(value)
