"""What time it is for a run: this machine's clock, unless it jumps, and event time on a stream that has fallen silent.

Event time that has gone too far cannot be taken back: whatever comes after is late. So a clock that jumps is said and not
followed, as far as it can be told (the machine counts its uptime beside its clock), and where it cannot (another
machine, a restart), one tick moves event time by a day at most.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from keyfold.errors import Misconfigured
from keyfold.journal.records import Record
from keyfold.times import in_utc, shifted, to_iso

LOOK_EVERY = timedelta(milliseconds=50)
"""From one look at what has come to the next, of what runs continuously."""

LONGEST_TICK = timedelta(days=1)
"""By so much one tick moves event time at most."""

_JUMP = timedelta(minutes=1)
"""By so much clock and uptime may drift apart between two runs."""

_FEWEST_GAPS = 3


LATEST_ADVANCE = datetime(9000, 1, 1, tzinfo=UTC)
"""Event time is moved no further by hand. The longest duration of a job later there still is a date."""


def check_advance(name: str, time: datetime | None) -> None:
    """See that a time to which a person moves event time is one that later times can follow.

    Args:
        name: of the option.
        time: that was given; None for nothing.

    Raises:
        KeyfoldError: it is later than `LATEST_ADVANCE`.
    """
    if time is not None and in_utc(time) > LATEST_ADVANCE:
        raise Misconfigured(
            f"{name} is {to_iso(in_utc(time))}: event time never goes back, and every event before it would come late; give a "
            f"time up to {to_iso(LATEST_ADVANCE)}, such as the end of what is to close"
        )


def watermark_after(watermark: datetime, event_time: datetime | None, delay: timedelta) -> datetime:
    """The watermark once an event time is reached: the delay behind it, and never back.

    Args:
        watermark: before.
        event_time: the newest; None where there is none.
        delay: how far the watermark stays behind.
    """
    return watermark if event_time is None else max(watermark, shifted(event_time, -delay))


class Reading(Record):
    """What the machine's clocks said.

    Attributes:
        wall: the clock, UTC.
        uptime: seconds since the machine's start; another machine's, or another start's, cannot be compared.
        boot: which start of which machine; empty where that cannot be told.
        offset: seconds by which the clock has jumped since its start and was not followed.
    """

    wall: datetime
    uptime: float
    boot: str
    offset: float = 0.0

    @property
    def time(self) -> datetime:
        """Processing time: the clock, less its jumps."""
        return self.wall - timedelta(seconds=self.offset)


def read_clock() -> Reading:
    """What the clocks of this machine say now."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        started = boot.read_text(encoding="ascii").strip()
        # It counts while the machine sleeps, as the clock does; the monotonic one does not, and each sleep would be a
        # jump.
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        started, uptime = "", time.monotonic()
    return Reading(wall=datetime.now(UTC), uptime=uptime, boot=started)


def go_on(before: Reading | None, now: Reading) -> tuple[Reading, str | None]:
    """A reading that follows no jump of the clock since the one before it, and what to say of a jump."""
    if before is None or not before.boot or before.boot != now.boot:
        return now, None
    elapsed = timedelta(seconds=now.uptime - before.uptime)
    offset = (now.wall - before.time - elapsed).total_seconds()
    if abs(offset) <= _JUMP.total_seconds():
        return now, None
    now = now.model_copy(update={"offset": offset})
    if abs(offset - before.offset) <= _JUMP.total_seconds():
        return now, None  # it jumped before, and that was said
    jump = timedelta(seconds=round(offset - before.offset))
    direction = "ahead" if jump > timedelta(0) else "back"
    return now, (
        f"the clock of this machine jumped {direction} by {abs(jump)} and is not followed: processing time is "
        f"{now.time:%Y-%m-%d %H:%M:%S} UTC (a restart of the machine, or the clock set right again, ends this)"
    )


@dataclass(frozen=True)
class Silence:
    """The newest event time so far, and the processing time at which it came."""

    newest: datetime
    arrived_at: datetime


def silent_event_time(
    silence: Silence | None, now: datetime, idle_after: timedelta | None, reached: datetime | None
) -> datetime | None:
    """The event time that a silent stream has reached: its newest event's, plus the time since that event came.

    None while the stream is not silent, or where the job leaves event time to its events.

    Args:
        silence: since when nothing came.
        now: processing time.
        idle_after: after so long without events a stream is silent.
        reached: the event time that an earlier tick reached; this one goes on from there by `LONGEST_TICK` at most.
    """
    if idle_after is None or silence is None or now - silence.arrived_at < idle_after:
        return None
    gone_by = shifted(silence.newest, now - silence.arrived_at)
    # A day at most: across a restart nothing tells a clock that was set ahead from time that has passed.
    return min(gone_by, shifted(max(silence.newest, reached or silence.newest), LONGEST_TICK))


def too_short(idle_after: timedelta | None, arrivals: Sequence[datetime]) -> str | None:
    """What to say where a stream's usual gap between deliveries is longer than the time after which it counts as silent.

    Args:
        idle_after: that time.
        arrivals: processing times at which events came, in order.
    """
    gaps = sorted(later - earlier for earlier, later in pairwise(arrivals))
    if idle_after is None or len(gaps) < _FEWEST_GAPS:
        return None
    # The median: a weekend without deliveries is not the usual gap.
    usual = gaps[len(gaps) // 2]
    if usual <= idle_after:
        return None
    return (
        f"events usually come every {_plain(usual)}, and idle_after is {_plain(idle_after)}: event time then runs ahead of "
        f"them, and they come late; set idle_after to more than {_plain(usual)}"
    )


def _plain(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
