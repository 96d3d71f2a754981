"""Cut the input of a run into slices of event time, so that results do not depend on file layout or batch size.

Each slice is a batch. All events of a slice are before all events of the next one, whatever files they are in. So the watermark
follows the events closely, and state stays small. Whether an event is late depends only on the watermark at the start of the
run.

Times are microseconds since 1970.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keyfold.lakehouse.log_changes import DataFile

_TOLERANCE = 0.25
"""A slice may be larger or smaller than asked for by this share, if it then cuts through fewer files."""


@dataclass(frozen=True)
class Slice:
    """The rows of a span of event time.

    Attributes:
        since, until: bounds, the first inclusive and the second exclusive; None for no bound.
        files: files with rows of the span, in order of their first event, each with whether all its rows are in the span.
        rows: number of rows; estimated if a file is cut.
    """

    since: int | None
    until: int | None
    files: tuple[tuple[DataFile, bool], ...]
    rows: int


_MILLISECOND = 1000

_SMALLEST = 1 << 20
"""Bytes of the smallest slice that is cut out of a file: reading a smaller one costs less than a batch."""


def cut(
    files: Sequence[DataFile],
    max_bytes: int,
    previous_watermark: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> tuple[Slice, ...]:
    """Cut files into slices of about `max_bytes` each; returns at least one slice. Files without rows are left out.

    Args:
        files: data files, with the span of their event times.
        max_bytes: bytes of files in a slice.
        previous_watermark: the watermark at the start of the run. All late events stay in one slice, whatever its size: in
            several slices, the first could close a state that the next ones belong to.
        since, until: read only this span.
    """
    there = [file for file in files if file.rows and _overlaps(file, since, until)]
    there.sort(key=lambda file: (file.first, file.last, file.input, file.path))
    # No cut at or before the previous watermark: all late events of a key must reach its state in one call.
    cuts = [
        time
        for time in _cuts(there, max_bytes, since, until)
        if previous_watermark is None or time > previous_watermark
    ]
    bounds = [since, *cuts, until]
    slices = (_slice(there, start, end) for start, end in pairwise(bounds))
    return tuple(slice_ for slice_ in slices if slice_.files) or (Slice(since, until, (), 0),)


def cuts_through(slices: Sequence[Slice]) -> float:
    """Return how often a file is read on average: 1 if files are clustered by time, more if they span several slices."""
    read = sum(len(slice_.files) for slice_ in slices)
    return read / max(1, len({(file.input, file.path) for slice_ in slices for file, _ in slice_.files}))


def _overlaps(file: DataFile, since: int | None, until: int | None) -> bool:
    first, last = _span(file)
    return (since is None or last >= since) and (until is None or first < until)


def _span(file: DataFile) -> tuple[int, int]:
    assert file.first is not None and file.last is not None  # noqa: S101, PT018 - a file with rows has times
    return file.first, file.last


def _slice(files: Sequence[DataFile], since: int | None, until: int | None) -> Slice:
    chosen: list[tuple[DataFile, bool]] = []
    rows = 0.0
    for file in files:
        if not _overlaps(file, since, until):
            continue
        first, last = _span(file)
        is_whole = (since is None or first >= since) and (until is None or last < until)
        chosen.append((file, is_whole))
        # Estimate: events are taken as spread evenly over the file's span.
        inside = min(last + 1, until if until is not None else last + 1) - max(
            first, since if since is not None else first
        )
        rows += file.rows * inside / (last + 1 - first)
    return Slice(since, until, tuple(chosen), round(rows))


def _cuts(files: Sequence[DataFile], max_bytes: int, since: int | None, until: int | None) -> list[int]:
    """Choose cuts near equal shares of bytes, at times that cut through the fewest bytes of files; whole milliseconds."""
    if not files:
        return []
    # Milliseconds, since a float holds those of every year exactly, and microseconds only up to the year 2255.
    firsts = np.array([_span(file)[0] // _MILLISECOND for file in files], dtype=np.float64)
    ends = np.array([_span(file)[1] // _MILLISECOND + 1 for file in files], dtype=np.float64)
    sizes = np.array([file.bytes for file in files], dtype=np.float64)
    low = firsts.min() if since is None else max(firsts.min(), -(-since // _MILLISECOND))
    high = ends.max() if until is None else min(ends.max(), until // _MILLISECOND)

    def before(times: np.ndarray) -> np.ndarray:
        """Estimate the bytes before each of these times: events are taken as spread evenly over a file's span."""
        return np.array([(sizes * np.clip((time - firsts) / (ends - firsts), 0, 1)).sum() for time in times])

    start, total = before(np.array([low]))[0], before(np.array([high]))[0] - before(np.array([low]))[0]
    # No more slices than files, unless files are large: each slice opens every file that has rows of it.
    parts = int(min(-(-total // max_bytes), max(len(files), total // _SMALLEST)))
    if parts <= 1:
        return []
    # Files begin and end at these times: a cut there goes through fewer files than one in between.
    times = np.unique(np.concatenate([firsts, ends]))
    times = times[(times > low) & (times < high)]
    shares = before(times) - start
    cuts: list[int] = []
    for part in range(1, parts):
        wanted = total * part / parts
        near = np.flatnonzero(np.abs(shares - wanted) <= _TOLERANCE * total / parts)
        if near.size:
            across = [sizes[(firsts < time) & (ends > time)].sum() for time in times[near]]
            time = times[near[int(np.argmin(across))]]
        else:
            time = _where(before, low, high, wanted + start)
        # Two shares may choose the same time.
        if time > (cuts[-1] if cuts else low):
            cuts.append(int(time))
    return [time * _MILLISECOND for time in cuts]


def _where(before: Callable[[np.ndarray], np.ndarray], low: float, high: float, wanted: float) -> float:
    """Find the millisecond with about `wanted` bytes before it, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        if before(np.array([middle]))[0] < wanted:
            low = middle
        else:
            high = middle
    return high
