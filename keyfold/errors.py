"""The errors that a caller can catch and an operator can act on.

`except KeyfoldError` catches all of them. Any other exception is a bug in Keyfold, or in a job's code outside of its step.
"""

import errno
import re
from collections.abc import Sequence

OF_THE_DISK = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""Numbers of an OSError that a person can mend: the disk is read-only, another user's, full or broken."""

_LONGEST_LINE = 600


class KeyfoldError(Exception):
    """A failure that a person can correct; the message says what is wrong, where, and what to do.

    The command line prints it without a traceback, and Dagster shows it as the run's failure. Catch it to handle every failure
    alike, and report the message. Committed data is never lost.

    Example:
        >>> import keyfold
        >>> try:
        ...     keyfold.Lakehouse("ftp://example/lake")
        ... except keyfold.KeyfoldError as error:
        ...     print(type(error).__name__)
        Misconfigured
    """


class Misconfigured(KeyfoldError):
    """A declaration, a parameter or a setting is wrong. Nothing was written.

    What an operator does: correct the value that the message names, and run again. A retry without a change fails again.

    Example:
        >>> import keyfold
        >>> keyfold.Append({"user": "text"}, name="totals")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: table totals: schema: user has type 'text'; give a type of Polars (pl.Int64) or Arrow (pa.int64())
    """


class Unfit(ValueError):
    """A value of a declaration does not fit; the declaration's error quotes it and says this (`keyfold.validation`)."""


class InvalidData(KeyfoldError):
    """Rows, keys or files that a command was given are invalid. Nothing was written.

    What an operator does: correct the rows that the message names. Events that do not fit their stream do not raise it: they go
    to `quarantine.<stream>`.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.InvalidData, keyfold.KeyfoldError)
        True
    """


class IncompatibleState(KeyfoldError):
    """The job, or a setting of it, does not fit the state of its live generation. Nothing was written.

    What an operator does: revert the change; or move the state (`keyfold state move`); or start a new generation with
    `--full-refresh`. The message says which of these apply.

    Example:
        >>> import keyfold
        >>> try:
        ...     raise keyfold.IncompatibleState("job totals is declared otherwise")
        ... except keyfold.KeyfoldError as error:
        ...     print(error)
        job totals is declared otherwise
    """


class Damaged(KeyfoldError):
    """A file, a journal, state or a table is missing, cannot be read, or does not agree with the others.

    What an operator does: stop runs of the job, leave the folder as it is, and follow the message: restore it from a backup,
    rebuild the stream's tables, or start a new generation with `--full-refresh`. A retry without that fails again.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.Damaged, keyfold.KeyfoldError)
        True
    """


class Locked(KeyfoldError):
    """Another process works on the same job, stream or table, or this process has lost its lease to another.

    What an operator does: wait until the other run ends, then run again. A scheduler may retry this error.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.Locked, keyfold.KeyfoldError)
        True
    """


class NotFound(KeyfoldError):
    """The job, stream, table, generation or batch that was asked for does not exist, or does not exist yet.

    What an operator does: check the name; or first run the command that creates it, such as `keyfold ingest`.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.NotFound, keyfold.KeyfoldError)
        True
    """


class Unreachable(KeyfoldError):
    """A broker, an object store, a cluster or Spark's Java process does not answer.

    What an operator does: check that the service runs and that its address is right, then run again: the run resumes where
    it stopped. A scheduler may retry this error.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.Unreachable, keyfold.KeyfoldError)
        True
    """


class StepFailed(KeyfoldError):
    """The step of a job raised, or returned rows that do not fit its schemas. The batch is not committed.

    What an operator does: give the message, which names the job and a sample key, to the author of the job. After the code is
    corrected, the next run repeats the batch.

    Example:
        >>> import keyfold
        >>> issubclass(keyfold.StepFailed, keyfold.KeyfoldError)
        True
    """


def error_in(text: str) -> KeyfoldError | OSError | None:
    r"""Find a worker's `KeyfoldError`, or its disk's error, in the traceback that Spark quotes; None if there is none.

    Example:
        >>> error_in("org.apache.spark.SparkException: ...\nkeyfold.errors.Damaged: journal 3 is gone\n\tat org.apache")
        Damaged('journal 3 is gone')
    """
    matches = re.findall(r"(?:keyfold\.errors\.(\w+)|KeyfoldError): (.*)", text)
    if not matches:
        disks = re.findall(r"^\w*Error: \[Errno (\d+)\] (.*?)(?:: '(.*)')?$", text, re.MULTILINE)
        # As Polars says it.
        disks += [
            (match[1], match[0], match[2])
            for match in re.findall(r"^\w*Error: (.*) \(os error (\d+)\): (\S+)", text, re.MULTILINE)
        ]
        number, reason, path = disks[-1] if disks else ("0", "", "")
        return OSError(int(number), reason, path or None) if int(number) in {*OF_THE_DISK, errno.ENOENT} else None
    # A traceback gives the cause first. The error that was raised from it names the place, and is the last.
    kind, message = matches[-1]
    kinds = {kind.__name__: kind for kind in KeyfoldError.__subclasses__() if kind.__module__ == __name__}
    return kinds.get(kind, KeyfoldError)(message)


def is_keyfold_error(name: str) -> bool:
    """Return whether a class name, with or without its module, is that of a `KeyfoldError`. Dagster records only the name.

    Example:
        >>> is_keyfold_error("keyfold.errors.Damaged"), is_keyfold_error("ValueError")
        (True, False)
    """

    def names(kind: type[KeyfoldError]) -> set[str]:
        return {kind.__name__}.union(*map(names, kind.__subclasses__()))

    return name.rpartition(".")[2] in names(KeyfoldError)


def counted(count: int, noun: str) -> str:
    """Write a count with its noun: `1 event`, `2,000 events`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_FEW = 10


def in_few_lines(lines: Sequence[str], noun: str) -> list[str]:
    """Return the first ten lines, with a line for the rest: `and 3 more files`."""
    more = len(lines) - _FEW
    return [*lines[:_FEW], *([f"and {more:,} more {noun}"] if more > 0 else [])]


def first_line(error: BaseException) -> str:
    """Shorten a library's error to its first line, and to the line with the system's reason or the HTTP status, if any."""
    # Delta's library colours its messages.
    text = re.sub(r"\x1b\[[0-9;]*m|\u21b3", "", str(error))
    lines = [line.strip() for line in text.strip().splitlines()] or [type(error).__name__]
    reason = next((line for line in lines[1:] if "(os error " in line or re.fullmatch(r"[45]\d\d [A-Z].*", line)), "")
    return (f"{lines[0]}: {reason}" if reason else lines[0])[:_LONGEST_LINE]
