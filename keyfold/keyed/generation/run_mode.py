"""Define and parse the modes of a run: `Incremental`, `FullRefresh` and `Replay`."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

from keyfold.errors import Misconfigured
from keyfold.journal.clock import check_advance
from keyfold.times import parse_time

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
    """

    name: ClassVar[ModeName] = "incremental"


NEW_EVENTS = Incremental()
"""The default mode of a run."""


@dataclass(frozen=True)
class FullRefresh(_Advancing):
    """Read all events again into a new generation, which goes live when all of them are processed.

    Attributes:
        advance_to: as in `Incremental`.
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

    Raises:
        Misconfigured: `since` is not before `until`, or `advance_to` is too late.
    """

    name: ClassVar[ModeName] = "replay"
    branch: str
    since: datetime | None = None
    until: datetime | None = None
    advance_to: datetime | None = None

    def __post_init__(self) -> None:
        check_advance("advance_to", self.advance_to)
        if self.since and self.until and self.since >= self.until:
            raise Misconfigured(f"replay {self.branch}: since {self.since} is not before until {self.until}")


RunMode: TypeAlias = Incremental | FullRefresh | Replay


def parse_run_mode(
    mode: ModeName,
    *,
    branch: str | None = None,
    since: str | None = None,
    until: str | None = None,
    advance_to: str | None = None,
) -> RunMode:
    """Parse the fields of a run's configuration; times are ISO 8601, and UTC without an offset.

    Raises:
        Misconfigured: fields exclude each other, a replay has no branch, or a time is invalid or too late; names the remedy.

    Example:
        >>> parse_run_mode("replay", branch="what-if", since="2026-01-31").since
        datetime.datetime(2026, 1, 31, 0, 0, tzinfo=datetime.timezone.utc)
        >>> parse_run_mode("incremental", since="2026-01-31")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: since says what to replay: set mode to replay, or leave it out
    """
    reached = parse_time("advance_to", advance_to)
    check_advance("advance_to", reached)
    if mode == "replay":
        if not branch:
            raise Misconfigured("a replay needs a branch to write to: give it a name in branch")
        return Replay(branch, parse_time("since", since), parse_time("until", until), reached)
    given = {"branch": branch, "since": since, "until": until}
    if stray := [name for name, value in given.items() if value is not None]:
        say, them = ("says", "it") if len(stray) == 1 else ("say", "them")
        if mode == "full_refresh":
            raise Misconfigured(
                f"{', '.join(stray)} {say} what to replay, which leaves the live tables alone, and a full refresh replaces "
                "them: give one of the two"
            )
        raise Misconfigured(f"{', '.join(stray)} {say} what to replay: set mode to replay, or leave {them} out")
    return FullRefresh(reached) if mode == "full_refresh" else Incremental(reached)
