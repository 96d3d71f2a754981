"""Define the modes of a run: `Incremental`, `FullRefresh` and `Replay`."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

from keyfold.errors import Misconfigured
from keyfold.journal.clock import check_advance
from keyfold.keyed.rows.key_share import KeyShare

ModeName = Literal["incremental", "full_refresh", "replay"]


@dataclass(frozen=True)
class _Advancing:
    advance_to: datetime | None = None

    def __post_init__(self) -> None:
        check_advance("advance_to", self.advance_to)


@dataclass(frozen=True)
class Incremental(_Advancing):
    """Process new events in the live generation.

    Attributes:
        advance_to: the watermark after the new events, at least; timers up to then fire.

    Raises:
        Misconfigured: `advance_to` is later than `journal.clock.LATEST_ADVANCE`.

    Example:
        >>> from datetime import UTC
        >>> Incremental(advance_to=datetime(2026, 1, 31, tzinfo=UTC)).name
        'incremental'
    """

    name: ClassVar[ModeName] = "incremental"


NEW_EVENTS = Incremental()
"""The default mode of a run."""


@dataclass(frozen=True)
class FullRefresh(_Advancing):
    """Read all events again into a new generation, which goes live when all of them are processed.

    Attributes:
        advance_to: as in `Incremental`.

    Example:
        >>> FullRefresh().name
        'full_refresh'
    """

    name: ClassVar[ModeName] = "full_refresh"


@dataclass(frozen=True)
class Replay:
    """Process a range of event time into a branch; the live tables stay as they are.

    Attributes:
        branch: name of the branch; its tables are `<table>@<branch>`.
        since: first event time to read; None reads from the beginning.
        until: first event time not to read; None reads to the end.
        advance_to: as in `Incremental`.
        share: the keys whose events are read; None reads those of all keys.

    Raises:
        Misconfigured: `since` is not before `until`, or `advance_to` is too late.

    Example:
        >>> from datetime import UTC
        >>> Replay("january", until=datetime(2026, 2, 1, tzinfo=UTC)).branch
        'january'
    """

    name: ClassVar[ModeName] = "replay"
    branch: str
    since: datetime | None = None
    until: datetime | None = None
    advance_to: datetime | None = None
    share: KeyShare | None = None

    def __post_init__(self) -> None:
        check_advance("advance_to", self.advance_to)
        if self.since and self.until and self.since >= self.until:
            raise Misconfigured(
                f"replay {self.branch}: since {self.since} is not before until {self.until}; give an earlier since"
            )


RunMode: TypeAlias = Incremental | FullRefresh | Replay
