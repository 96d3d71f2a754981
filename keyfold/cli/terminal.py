"""Print summaries, errors and progress of commands, make text from data safe for a terminal, and handle signals.

Landed data can contain Rich markup, escape sequences that recolour or retitle a terminal, or marks that reverse the direction of
text. All of them are printed as plain characters.
"""

import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO, cast
from unicodedata import category

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from keyfold.errors import OF_THE_DISK, KeyfoldError, first_line
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.records import Progress
from keyfold.storage.reachable import check_reachable
from keyfold.storage.store_failures import StoreError, failure_of_store
from keyfold.times import BEGINNING, to_iso

AS_JSON = ContextVar("as_json", default=False)
"""Whether this process prints for programs (`--json`)."""


def report(result: object, text: str | None = None, **more: Any) -> None:
    """Print what a command made, a mapping or a dataclass, with more values.

    As one line of JSON with `--json`; else as text, by default each of its values below its name.
    """
    summary = {**(result if isinstance(result, Mapping) else asdict(cast(Any, result))), **more}
    if AS_JSON.get():
        print(json.dumps(summary, default=_as_json))
    else:
        Console().print(message("\n".join(_facts(summary)) if text is None else text), soft_wrap=True)


_WIDTH_OF_NO_TERMINAL = 100_000


def _facts(summary: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Write values as lines, and each row of a table as JSON; nothing of what is empty."""
    for name, value in summary.items():
        rows = value.to_dicts() if hasattr(value, "to_dicts") else value
        label = f"{indent}{name}:"
        if isinstance(rows, Mapping) and rows:
            yield label
            yield from _facts(rows, f"{indent}  ")
        elif isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
            yield label
            yield from (f"{indent}  {json.dumps(row, default=_as_json, separators=(',', ':'))}" for row in rows)
        elif isinstance(rows, list | tuple) and any(" " in str(row) for row in rows):
            yield label
            yield from (f"{indent}  {row}" for row in rows)
        elif rows not in (None, "", [], (), {}):
            yield f"{label} {_text(rows)}"


def print_rows(kind: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], **about: Any) -> None:
    """Print rows as a table; or, with `--json`, all of their values as one line below the name of their kind."""
    if AS_JSON.get():
        report({**about, kind: rows})
    else:
        shown = [[cell(_text(row[name])) for name in columns] for row in rows]
        print_table([name.replace("_", " ") for name in columns], shown, sys.stdout)


def print_table(names: Sequence[str], rows: Iterable[Sequence[Text]], to: TextIO) -> None:
    """Write rows below the names of their columns. A terminal wraps lines; a file or a pipe gets every value whole."""
    shown = Table(*(Column(cell(name)) for name in names), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        shown.add_row(*row)
    Console(file=to, width=None if to.isatty() else _WIDTH_OF_NO_TERMINAL).print(shown)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if value > BEGINNING else "not set"
    return "" if value is None else " ".join(str(value).split())


@contextmanager
def failures() -> Iterator[None]:
    """Print an error that a person can fix as one message, without a traceback, and exit with code 1."""
    try:
        yield
    except KeyfoldError as error:
        text = str(error)
    except Exception as error:
        text = _message_of_system_error(error)
        if text is None:
            raise  # a bug of Keyfold: its traceback is needed
    else:
        return
    print_error(text)
    raise typer.Exit(1)


def print_error(text: str) -> None:
    """Print an error's message on standard error."""
    Console(stderr=True).print(Text.assemble(("error:", "bold red"), " ", message(text)), soft_wrap=True)


@contextmanager
def usage_faults() -> Iterator[None]:
    """Report an invalid option value as bad usage, and exit with code 2."""
    try:
        yield
    except KeyfoldError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def progress_of(task: str) -> Iterator[Callable[[Progress], None]]:
    """Show how much is done on standard error if that is a terminal."""
    with Console(stderr=True).status(message(f"{task}: planning")) as status:
        yield lambda progress: status.update(message(f"{task}: {progress.describe()}"))


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, one a line."""
    for warning in warnings:
        Console(stderr=True).print(Text.assemble(("warning:", "bold yellow"), " ", message(warning)), soft_wrap=True)


def stop_on_signal() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set, so that a long run can end after its batch."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def until_signal(every: float | None, metrics: str | None) -> dict[str, Any]:
    """Return the arguments of a continuous run that SIGINT and SIGTERM end after its batch, and that prints its warnings.

    Call it before Spark starts: a signal that arrives while Spark starts must end the run, too.
    """
    return {
        "every": LOOK_EVERY if every is None else timedelta(seconds=every),
        "stop": stop_on_signal(),
        "metrics": metrics,
        "on_warning": lambda line: warn([line]),
    }


def _message_of_system_error(error: Exception) -> str | None:
    """Return the message of an error of a library or the system; None if the error is a bug of Keyfold."""
    # Imported late: `keyfold --help` must not load Delta.
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    if isinstance(error, OSError | DeltaError) and (failed := failure_of_store(error)) is not None:
        return _of_the_store(failed)
    if isinstance(error, DeltaError):
        return f"a table could not be read or written: {first_line(error)}; fix this and run the command again"
    if not isinstance(error, OSError):
        return None
    # Errors of Polars and Delta have the number only in their text.
    if error.errno is None and "(os error " in str(error):
        return first_line(error)
    return f"{error.filename or 'the disk'}: {error.strerror}" if error.errno in OF_THE_DISK else None


def _of_the_store(error: StoreError) -> str:
    """Return what is wrong with the settings if the store still does not answer, else the store's own error."""
    try:
        check_reachable(error.place)
    except KeyfoldError as setting_error:
        return str(setting_error)
    return str(error)


def _as_json(value: Any) -> str:
    if isinstance(value, datetime):
        return to_iso(value)
    return value.to_dicts() if hasattr(value, "to_dicts") else str(value)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates, and line and paragraph separators."""


def visible(text: str, keep: str = "") -> str:
    r"""Write control and format characters as escapes, such as `\x1b`.

    Args:
        text: any text.
        keep: characters that are not escaped.

    Example:
        >>> visible("red \x1b[31m, two\nlines", keep="\n")
        'red \\x1b[31m, two\nlines'
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if category(character) in _INVISIBLE and character not in keep
        else character
        for character in text
    )


def message(text: str) -> Text:
    """Return a message for the console, without a library's colours; it is never taken for markup."""
    return Text(visible(_COLOURS.sub("", text), keep="\n"))


def cell(value: object) -> Text:
    """Return a value for a table on the console, on one line, lists and structs as JSON; it is never taken for markup."""
    if isinstance(value, list | dict):
        return Text(visible(json.dumps(value, default=_as_json, ensure_ascii=False)))
    return Text("" if value is None else f"{value:.6g}" if isinstance(value, float) else visible(str(value)))
