"""Cuts what a run reads into slices of event time, each of which is a batch: file layout and batch size show in no result.

All events of a slice come before all those of the next, whatever files they lie in. So the watermark can follow them
closely, state holds no more than it must, and what is late is decided by the watermark that the run began with alone.

Times here are microseconds since 1970.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keyfold.lakehouse.log_changes import DataFile

_TOLERANCE = 0.25
"""A slice may be so much larger or smaller than asked for, if it then cuts through fewer files."""


@dataclass(frozen=True)
class Slice:
    """Rows of a span of event time, wherever they lie.

    Attributes:
        since, until: its bounds, the first in it and the second not; None for no bound.
        files: that hold rows of it, in order of their first event, each with whether it lies in the slice whole.
        rows: how many there are, by estimate where a file is cut.
    """

    since: int | None
    until: int | None
    files: tuple[tuple[DataFile, bool], ...]
    rows: int


_MILLISECOND = 1000

_SMALLEST = 1 << 20
"""Slices of fewer bytes than this are not cut out of a file: a batch costs more than it."""


def cut(
    files: Sequence[DataFile],
    max_bytes: int,
    late_watermark: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> tuple[Slice, ...]:
    """Cut files into slices of about `max_bytes` each, one at least; files without rows are left out.

    Args:
        files: data files, with the span of their event times.
        max_bytes: of a slice's share of the files.
        late_watermark: the watermark that the run begins with: what is late stays in one slice, however much it is,
            since late events that join a state which is due already would close it slice by slice.
        since, until: read only this span.
    """
    there = [file for file in files if file.rows and _overlaps(file, since, until)]
    there.sort(key=lambda file: (file.first, file.last, file.input, file.path))
    # No cut at or behind the late watermark: late events must meet the state that they find in one call.
    cuts = [time for time in _cuts(there, max_bytes, since, until) if late_watermark is None or time > late_watermark]
    bounds = [since, *cuts, until]
    slices = (_slice(there, start, end) for start, end in pairwise(bounds))
    return tuple(one for one in slices if one.files) or (Slice(since, until, (), 0),)


def cuts_through(slices: Sequence[Slice]) -> float:
    """How often a file is read on the whole: 1 where the table is clustered in time; more where files span slices."""
    read = sum(len(one.files) for one in slices)
    return read / max(1, len({(file.input, file.path) for one in slices for file, _ in one.files}))


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
        whole = (since is None or first >= since) and (until is None or last < until)
        chosen.append((file, whole))
        inside = min(last + 1, until if until is not None else last + 1) - max(
            first, since if since is not None else first
        )
        rows += file.rows * inside / (last + 1 - first)
    return Slice(since, until, tuple(chosen), round(rows))


def _cuts(files: Sequence[DataFile], max_bytes: int, since: int | None, until: int | None) -> list[int]:
    """Where to cut: near equal shares, at a time that fewest bytes of files lie across; in whole milliseconds."""
    if not files:
        return []
    # Milliseconds, since a float has those of every year in full, and microseconds only up to 2255.
    firsts = np.array([_span(file)[0] // _MILLISECOND for file in files], dtype=np.float64)
    ends = np.array([_span(file)[1] // _MILLISECOND + 1 for file in files], dtype=np.float64)
    sizes = np.array([file.bytes for file in files], dtype=np.float64)
    low = firsts.min() if since is None else max(firsts.min(), -(-since // _MILLISECOND))
    high = ends.max() if until is None else min(ends.max(), until // _MILLISECOND)

    def before(times: np.ndarray) -> np.ndarray:
        """Bytes that lie before each of these times, as if events were spread evenly over each file's span."""
        return np.array([(sizes * np.clip((time - firsts) / (ends - firsts), 0, 1)).sum() for time in times])

    start, total = before(np.array([low]))[0], before(np.array([high]))[0] - before(np.array([low]))[0]
    # No more slices than files, unless they are large: each slice opens each file that it touches.
    parts = int(min(-(-total // max_bytes), max(len(files), total // _SMALLEST)))
    if parts <= 1:
        return []
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
        # Two shares may come to one boundary.
        if time > (cuts[-1] if cuts else low):
            cuts.append(int(time))
    return [time * _MILLISECOND for time in cuts]


def _where(before: Callable[[np.ndarray], np.ndarray], low: float, high: float, wanted: float) -> float:
    """The whole millisecond before which about so many bytes lie, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        if before(np.array([middle]))[0] < wanted:
            low = middle
        else:
            high = middle
    return high
