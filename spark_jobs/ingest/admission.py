"""Admission: the files that Spark gets to see are those that are whole.

Spark's file source takes whatever is visible when it lists a folder, and never looks at a file again; of what it could
be told to leave out, `modifiedBefore` is refused in streams and `pathGlobFilter` knows names, not paths. So it lists
a folder of links instead, SOURCE/admitted, in which a file stands once it is whole, under its path below the landing
folder. A link stays as long as its file does: a batch that is replayed finds what it was planned with.
"""

import os
import time
from collections.abc import Set
from datetime import timedelta
from pathlib import Path

from spark_jobs.errors import KeyfoldError
from spark_jobs.landing import Look, look
from spark_jobs.microseconds import micros


def admit(landing: Path, links: Path, *, settle: timedelta, done_marker: bool) -> int:
    """Link the files that are whole; give back how many are not yet (a folder that cannot be read counts as one).

    Files that were changed just now are given the settling time, once, so that a run that a person starts right after
    copying finds them.

    Args:
        landing: the landing folder.
        links: the folder of links.
        settle: how long a file must have stayed as it is; with 0 every file counts as whole.
        done_marker: whether a file counts as whole by its marker instead.

    Raises:
        KeyfoldError: the landing folder cannot be read.
    """
    now, found = time.time_ns(), _look(landing, done_marker)
    if not done_marker and (young := [file for file in found.files if not file.is_whole(now, settle)]) and settle:
        settled_in = max(file.changed_at for file in young) - now + micros(settle) * 1_000
        time.sleep(min(settled_in / 1e9, settle.total_seconds()))
        now, found = time.time_ns(), _look(landing, done_marker)
    below = {os.path.relpath(file.path, landing): file for file in found.files}
    if not found.unreadable:
        _unlink_what_is_gone(links, below.keys())
    waiting = len(found.unreadable)
    for path, file in below.items():
        link = links / path
        if file.is_whole(now, settle) or not (settle or done_marker):
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(file.path)
        elif not link.is_symlink():
            waiting += 1
    links.mkdir(parents=True, exist_ok=True)
    return waiting


def _look(landing: Path, done_marker: bool) -> Look:
    try:
        return look(landing, done_marker=done_marker)
    except OSError as error:
        raise KeyfoldError(f"the landing folder {landing} cannot be read: {error.strerror}") from None


def _unlink_what_is_gone(links: Path, there: Set[str]) -> None:
    for parent, folders, names in os.walk(links, topdown=False):
        for name in (*names, *folders):
            path = os.path.join(parent, name)
            if os.path.islink(path) and os.path.relpath(path, links) not in there:
                os.unlink(path)
