"""Determine processing time, and event time on a silent stream.

Event time never goes back: if it advances too far, later events are late. So clock jumps are reported and ignored. A jump is
recognised by the machine's uptime. After a restart, or on another machine, a clock that is ahead cannot be recognised; one tick
then advances event time by a day at most. Processing time never goes back: once the clock is right, it goes on from where it was.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from keyfold.errors import Misconfigured
from keyfold.times import in_utc, shifted, to_iso
from keyfold.validation import Record

LOOK_EVERY = timedelta(milliseconds=50)
"""Interval at which continuous runs look for new data."""

LONGEST_TICK = timedelta(days=1)
"""The most by which one tick advances event time."""

_JUMP = timedelta(minutes=1)
"""Greatest difference between clock and uptime, between two runs, that is not a jump."""

_FEWEST_GAPS = 3
"""Gaps between deliveries that are needed to know the usual one."""


LATEST_ADVANCE = datetime(9000, 1, 1, tzinfo=UTC)
"""The latest time of `--advance-to`: that time plus any duration of a job is still a valid date."""


def check_advance(name: str, time: datetime | None) -> None:
    """Check the time to which a person advances event time.

    Args:
        name: name of the option.
        time: its value; None if it was not given.

    Raises:
        KeyfoldError: the time is later than `LATEST_ADVANCE`.
    """
    if time is not None and in_utc(time) > LATEST_ADVANCE:
        raise Misconfigured(
            f"{name} is {to_iso(in_utc(time))}: event time never goes back, and every event before it would come late; give a "
            f"time up to {to_iso(LATEST_ADVANCE)}, such as the end of the last window that is to close"
        )


def watermark_after(watermark: datetime, event_time: datetime | None, delay: timedelta) -> datetime:
    """Return the watermark after an event time. It is that time less the delay, and never goes back.

    Args:
        watermark: the watermark before.
        event_time: the newest event time; None without events.
        delay: how far the watermark stays behind event time.
    """
    return watermark if event_time is None else max(watermark, shifted(event_time, -delay))


class Reading(Record):
    """Readings of the machine's clocks.

    Attributes:
        wall: the machine's clock (UTC).
        uptime: seconds since the machine started; comparable only for the same `boot`.
        boot: identifies one start of one machine; empty if unknown.
        offset: sum of the jumps of the clock that are ignored, in seconds.
    """

    wall: datetime
    uptime: float
    boot: str
    offset: float = 0.0

    @property
    def time(self) -> datetime:
        """Processing time: the clock without its jumps."""
        return self.wall - timedelta(seconds=self.offset)


def read_clock() -> Reading:
    """Read the clocks of this machine."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        started = boot.read_text(encoding="ascii").strip()
        # CLOCK_BOOTTIME also counts while the machine sleeps. With the monotonic clock, each sleep would look like a jump.
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        started, uptime = "", time.monotonic()
    return Reading(wall=datetime.now(UTC), uptime=uptime, boot=started)


def ignore_jumps(before: Reading | None, now: Reading, reached: datetime | None = None) -> tuple[Reading, str | None]:
    """Return a reading that ignores a jump of the clock since the previous reading, and a warning about a new jump.

    Args:
        before: the previous reading.
        now: the readings of the machine's clocks.
        reached: the processing time that was reached, from which it goes on where the clock is behind it.
    """
    if before is not None and before.boot and before.boot == now.boot:
        elapsed = timedelta(seconds=now.uptime - before.uptime)
        offset = (now.wall - before.time - elapsed).total_seconds()
    else:
        # Uptimes of two machines, or of before and after a restart, cannot be compared.
        behind = (now.wall - reached).total_seconds() if reached else 0.0
        offset = min(behind, before.offset if before else behind)
        if behind >= 0:
            return now, None
    # No jump, or a clock that was corrected: the offset of earlier jumps is dropped.
    if abs(offset) <= _JUMP.total_seconds():
        return now, None
    now = now.model_copy(update={"offset": offset})
    known = before.offset if before else 0.0
    if abs(offset - known) <= _JUMP.total_seconds():
        return now, None  # an earlier jump, which was reported
    jump = timedelta(seconds=round(offset - known))
    direction, if_right = (
        ("ahead", "restart the machine")
        if jump > timedelta(0)
        else ("back", "leave it: processing time stays ahead of it until a full refresh")
    )
    return now, (
        f"the clock of this machine jumped {direction} by {abs(jump)}, which is ignored: processing time is "
        f"{now.time:%Y-%m-%d %H:%M:%S} UTC; correct the clock, or if it is right now, {if_right}"
    )


@dataclass(frozen=True)
class Silence:
    """The newest event time of a stream, and the processing time at which that event arrived."""

    newest: datetime
    arrived_at: datetime


def silent_event_time(
    silence: Silence | None, now: datetime, idle_timeout: timedelta | None, reached: datetime | None
) -> datetime | None:
    """Return the event time of a silent stream: its newest event time, plus the time since that event arrived.

    Args:
        silence: the newest event; None without events.
        now: processing time.
        idle_timeout: how long a stream must be without events to be silent; None if only events advance event time.
        reached: the event time that an earlier tick reached; this one advances it by `LONGEST_TICK` at most.

    Returns:
        The event time; None if the stream is not silent.
    """
    if idle_timeout is None or silence is None or now - silence.arrived_at < idle_timeout:
        return None
    gone_by = shifted(silence.newest, now - silence.arrived_at)
    # A day at most: across a restart, a clock that was set ahead cannot be told from time that has passed.
    return min(gone_by, shifted(max(silence.newest, reached or silence.newest), LONGEST_TICK))


def idle_timeout_warning(idle_timeout: timedelta | None, arrivals: Sequence[datetime]) -> str | None:
    """Warn if the usual gap between deliveries is longer than `idle_timeout`; None if not.

    Args:
        idle_timeout: how long a stream must be without events to be silent.
        arrivals: processing times of deliveries, in order.
    """
    gaps = sorted(later - earlier for earlier, later in pairwise(arrivals))
    if idle_timeout is None or len(gaps) < _FEWEST_GAPS:
        return None
    # The median: a weekend without deliveries is not the usual gap.
    usual = gaps[len(gaps) // 2]
    if usual <= idle_timeout:
        return None
    return (
        f"events usually come every {_text(usual)}, and idle_timeout is {_text(idle_timeout)}: event time then runs ahead of "
        f"them, and they come late; set idle_timeout to more than {_text(usual)}"
    )


def _text(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
