"""Find faults of the lakehouse and its disks: a growing quarantine, an unreadable journal, a full disk."""

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
    """Return the row counts of streams from their newest commit records, and the state of their journals."""
    counts, events = dict[str, tuple[int, int]](), list[Event]()
    for stream in streams:
        name, condition = f"journal of stream {stream}", None
        try:
            done = ingest_journal(lakehouse, stream).last_done()
        except KeyfoldError as error:
            condition = Condition(
                name, "error", str(error), "do what the message says; until then, every run of the stream fails"
            )
        else:
            if done is not None:
                counts[stream] = (done.totals.accepted, done.totals.quarantined)
        events.append((name, condition))
    return counts, events


def quarantine(before: Counts, now: Counts, percent: float) -> Iterator[Event]:
    """Find streams whose share of quarantined rows since the last look is too large, or no longer is.

    Args:
        before: the counts of the last look.
        now: the counts of this look.
        percent: the share from which it is too large.
    """
    for stream, (accepted, quarantined) in now.items():
        more, bad = accepted - before.get(stream, (0, 0))[0], quarantined - before.get(stream, (0, 0))[1]
        if stream not in before or more < 0 or bad < 0 or more + bad == 0:
            continue  # the first look, a rebuild, or no new rows: a raised condition stays
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
                f"`keyfold show quarantine.{stream}` shows the lines and reasons; the source may have changed its format. "
                "Fix the source or the stream's columns, and land the lines again",
            ),
        )


def disks(folders: Mapping[str, Path], percent: float, raised: Raised) -> Iterator[Condition]:
    """Find disks with too little free space or too few free inodes.

    Args:
        folders: folders by label, such as `KEYFOLD_HOME`; of several on one disk, the first is used.
        percent: the free share below which a condition is raised.
        raised: conditions raised before; they clear only when a fifth more is free, so that they do not flap.
    """
    seen = set[int]()
    for label, folder in folders.items():
        # A folder that does not exist yet will be on the disk of its nearest existing parent.
        existing = next(one for one in (folder, *folder.parents) if one.exists())
        device = existing.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        # `f_bavail` and `f_favail` do not count what is reserved for root.
        disk, name = os.statvfs(existing), f"disk of {label}"
        shares = {"space": (disk.f_bavail, disk.f_blocks), "inodes": (disk.f_favail, disk.f_files)}
        free, what = min((100 * free / total, what) for what, (free, total) in shares.items() if total)
        if free < percent * (1.2 if name in raised else 1.0):
            yield Condition(
                name,
                "error",
                f"only {free:.1f} % of the {what} of {folder} is free; the limit is {percent:g} %",
                "make room: run maintain_<group> and purge_history, delete `aside/`, or move the folder to a larger disk; "
                "the next run continues a run that failed on a full disk",
            )
