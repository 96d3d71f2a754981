"""Limit how often a sensor requests a run that reads nothing; the sensor's cursor counts the attempts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keyfold.errors import KeyfoldError

UNDONE = "an interrupted run has left work"

_MINUTE = 60_000_000_000
_AGAIN_AFTER = (1 * _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 60 * _MINUTE, 240 * _MINUTE)
"""Waiting times after runs that read nothing. A short fault costs a minute; a lasting one does not start runs all night."""

_TRIES = len(_AGAIN_AFTER) + 1


@dataclass(frozen=True)
class Asked:
    """The content of a sensor's cursor: the last request, and files with a change time in the future.

    Attributes:
        files: a digest of the files or offsets of the last request.
        tries: number of requests since something was read.
        at: time of the last request, in nanoseconds since 1970.
        changed: a digest of the files that have changed since they were read.
        seen: size and times of files whose change time is ahead of this machine's clock, by path. Such a file counts as whole
            if it is unchanged at the next tick; waiting for the clock could take for ever.
        known: number of read files, or sum of read offsets, at the last request.
    """

    files: str = ""
    tries: int = 0
    at: int = 0
    changed: str = ""
    seen: Mapping[str, Sequence[int]] = field(default_factory=dict)
    known: int = -1

    @classmethod
    def read(cls, cursor: str | None) -> "Asked":
        """Parse a cursor.

        Raises:
            KeyfoldError: the cursor is invalid, since somebody has changed it.
        """
        try:
            content = json.loads(cursor or "{}")
            return cls() if isinstance(content, int) else cls(**content)  # an older sensor kept one number
        except (ValueError, TypeError):
            raise KeyfoldError(
                f"the sensor's cursor {cursor!r} is invalid; reset it to empty: files that were read are not read again"
            ) from None

    def text(self) -> str:
        """Return the cursor as text."""
        return json.dumps(vars(self), separators=(",", ":"))


def held_back(what: str, asked: Asked, now: int, digest: str) -> str | None:
    """Return why no further attempt starts now; None if one may start.

    Args:
        what: what is there to read, for people.
        asked: the last request.
        now: nanoseconds since 1970.
        digest: the digest of the files or offsets to request.
    """
    is_last = asked.tries >= _TRIES
    ends = asked.at + _AGAIN_AFTER[min(asked.tries, len(_AGAIN_AFTER)) - 1]
    # If the clock was set back, do not wait for it.
    waits = asked.at <= now < ends
    if not waits and not (is_last and digest == asked.files):
        return None
    times = "1 run" if asked.tries == 1 else f"{asked.tries} runs"
    text = f"{what}, and {times} read nothing: see why the last run failed"
    minutes = -(-(ends - now) // _MINUTE)
    if not is_last:
        return f"{text}; attempt {asked.tries + 1} of {_TRIES} in {minutes} min"
    later = f", in {minutes} min at the earliest" if waits else ""
    return (
        f"{text}; fix this, and start the job by hand or reset this sensor's cursor: further runs start only for newer "
        f"data{later}"
    )
