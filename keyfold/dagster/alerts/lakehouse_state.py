"""What the lakehouse and its disks say: a quarantine that grows, a journal that cannot be read, a disk that fills."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from keyfold.dagster.alerts.condition import Condition, Event, Raised
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.lakehouse import Lakehouse

Counts = Mapping[str, tuple[int, int]]
"""Rows accepted and quarantined so far, by stream."""


def count_rows(lakehouse: Lakehouse, streams: Iterable[str]) -> tuple[dict[str, tuple[int, int]], list[Event]]:
    """The rows of streams by their newest commit records, and the journals that cannot be read."""
    counts, events = dict[str, tuple[int, int]](), list[Event]()
    for stream in streams:
        name, condition = f"journal of stream {stream}", None
        try:
            done = ingest_journal(lakehouse, stream).last_done()
        except KeyfoldError as error:
            condition = Condition(
                name, "error", str(error), "do what the message says; no run of the stream goes on before"
            )
        else:
            if done is not None:
                counts[stream] = (done.totals.accepted, done.totals.quarantined)
        events.append((name, condition))
    return counts, events


def quarantine(before: Counts, now: Counts, percent: float) -> Iterator[Event]:
    """Streams whose share of quarantined rows, of those read since the last look, is too large, or is not any more.

    Args:
        before: the counts of the last look.
        now: the counts of this one.
        percent: the share from which on it is too large.
    """
    for stream, (accepted, quarantined) in now.items():
        more, bad = accepted - before.get(stream, (0, 0))[0], quarantined - before.get(stream, (0, 0))[1]
        if stream not in before or more < 0 or bad < 0 or more + bad == 0:
            continue  # its first look, a rebuild, or nothing new: what was raised stays
        share = 100 * bad / (more + bad)
        name = f"quarantine of {stream}"
        yield (
            name,
            None
            if share < percent
            else Condition(
                name,
                "error",
                f"{bad:,} of {more + bad:,} new rows ({share:.0f} %) were quarantined",
                f"`keyfold show quarantine.{stream}` has the lines and the reasons: has the source changed its format? "
                "mend the source or the stream's columns, and land the lines again",
            ),
        )


def disks(folders: Mapping[str, Path], percent: float, raised: Raised) -> Iterator[Condition]:
    """Disks of which too little is free, in bytes or in inodes.

    Args:
        folders: by what they are, as `KEYFOLD_HOME`; of several on one disk the first counts.
        percent: the share below which too little is free.
        raised: what was raised before: a fifth more must be free until it is over, so that it does not come and go.
    """
    seen = set[int]()
    for label, folder in folders.items():
        there = next(one for one in (folder, *folder.parents) if one.exists())
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        disk, name = os.statvfs(there), f"disk of {label}"
        shares = {"space": (disk.f_bavail, disk.f_blocks), "inodes": (disk.f_favail, disk.f_files)}
        free, what = min((100 * free / total, what) for what, (free, total) in shares.items() if total)
        if free < percent * (1.2 if name in raised else 1.0):
            yield Condition(
                name,
                "error",
                f"{free:.1f} % of the {what} of {folder} are free, and less than {percent:g} % is too little",
                "make room: run maintain_<group> and purge_history, delete `aside/`, or move the folder to a larger disk; "
                "a run that a full disk broke off goes on where it was",
            )
