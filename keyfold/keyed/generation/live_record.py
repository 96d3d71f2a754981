"""The live record: it names the live generation of each job, and is replaced as a whole, so that jobs change in one step.

HOME/live.json   entries by job, in a line; a second line has a number and a digest (`sealed`)
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from keyfold.journal.sealed import sealed, unsealed
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place
from keyfold.validation import Record

LIVE = "live.json"
_PATIENCE = timedelta(seconds=60)
"""Longer than the lease of a killed run lasts."""
_Name = Annotated[str, StringConstraints(pattern=r"^generation-\d{4,}$")]


class Entry(Record):
    """What the live record says of a job.

    Attributes:
        generation: the live generation.
        replaces: the generation that was live before.
        cleared_to: the last generation that was removed.
        cleared: changes whenever generations are removed.
    """

    generation: _Name
    replaces: _Name | None = None
    cleared_to: _Name | None = None
    cleared: str = ""


_ENTRIES = TypeAdapter(dict[Annotated[str, StringConstraints(pattern=r"^[^/\\]+$")], Entry])


def live_record(lakehouse: Lakehouse) -> Place:
    """Return the path of the live record."""
    return lakehouse.home / LIVE


def live_entry(lakehouse: Lakehouse, job: str) -> Entry | None:
    """Return a job's entry in the live record; None if there is none, or the record is missing or damaged."""
    if job in lakehouse.ahead:
        # Not from a file: of a trial, it is a branch.
        return Entry.model_construct(generation=lakehouse.ahead[job])
    return _read(lakehouse)[0].get(job)


def live_generation_name(lakehouse: Lakehouse, job: str) -> str | None:
    """Return the folder name of the live generation, which need not be readable."""
    entry = live_entry(lakehouse, job)
    return entry.generation if entry else None


def written_by_hand(lakehouse: Lakehouse, generations: dict[str, str]) -> str:
    """Return the content of a live record with these generations of jobs that the record lacks, for somebody who writes it."""
    lacking = {job: Entry(generation=name) for job, name in generations.items()}
    return _ENTRIES.dump_json(lacking | _read(lakehouse)[0], exclude_defaults=True).decode()


@contextmanager
def changing_live(lakehouse: Lakehouse) -> Iterator[dict[str, Entry]]:
    """Yield the entries of the live record by job, and replace it by what becomes of them, unless an error is raised.

    The entries of a damaged record are lost.

    Raises:
        KeyfoldError: another run changes it all the time; or, in a store, this run has lost its lease.
    """
    with lakehouse.home.exclusive("going live", patience=_PATIENCE):
        entries, number, tag = _read(lakehouse)
        yield entries
        # The time, so that it is later than what was there before a record that was lost or written by hand.
        number = max(number + 1, time.time_ns() // 1_000_000)
        live_record(lakehouse).replace_content(sealed(_ENTRIES.dump_json(entries, exclude_defaults=True), number), tag)


def _read(lakehouse: Lakehouse) -> tuple[dict[str, Entry], int, str]:
    """Return the entries of the live record, its number, and its tag; no entries of a missing or damaged one."""
    tag = ""
    with suppress(FileNotFoundError, ValueError):
        content, tag = live_record(lakehouse).read_with_tag()
        # One that was written by hand is a line without number and digest.
        entries, number = unsealed(content) if b"\n" in content.strip() else (content, 0)
        return _ENTRIES.validate_json(entries), number, tag
    return {}, 0, tag
