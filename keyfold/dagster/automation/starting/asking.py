"""How often a run is asked for: again where one has read nothing, and not for ever. The cursor of a sensor remembers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keyfold.errors import KeyfoldError

UNDONE = "a run left something undone"

_MINUTE = 60_000_000_000
_AGAIN_AFTER = (1 * _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 60 * _MINUTE, 240 * _MINUTE)
"""After a run that read nothing, until the next one. A disk that was full for a moment costs a minute; what a person
has to mend is not tried all night."""

_TRIES = len(_AGAIN_AFTER) + 1


@dataclass(frozen=True)
class Asked:
    """What the cursor holds: what was asked for last, and what lies ahead of the clock.

    Attributes:
        files: a digest of the files, or offsets, that a run was asked for last.
        tries: how often one was asked for since something was read.
        at: when last, nanoseconds since 1970.
        changed: a digest of the files that had changed since they were read.
        seen: files whose change time lies ahead of this machine's clock, by path: one that is the same a tick later is
            whole, since waiting for the clock to get there may take for ever.
        known: how many files, or offsets, were known to be read when it was asked for last.
    """

    files: str = ""
    tries: int = 0
    at: int = 0
    changed: str = ""
    seen: Mapping[str, Sequence[int]] = field(default_factory=dict)
    known: int = -1

    @classmethod
    def read(cls, cursor: str | None) -> "Asked":
        """What a cursor says.

        Raises:
            KeyfoldError: somebody has set one that is none.
        """
        try:
            content = json.loads(cursor or "{}")
            return cls() if isinstance(content, int) else cls(**content)  # an older sensor kept one number
        except (ValueError, TypeError):
            raise KeyfoldError(
                f"the sensor's cursor {cursor!r} is none that it wrote; reset it to nothing: files that were read are "
                "not read again"
            ) from None

    def text(self) -> str:
        """The cursor."""
        return json.dumps(vars(self), separators=(",", ":"))


def held_back(what: str, asked: Asked, now: int, digest: str) -> str | None:
    """Why no further attempt starts now, None where one may.

    Args:
        what: is there to be read, for people.
        asked: for what before.
        now: nanoseconds since 1970.
        digest: of what would be asked for.
    """
    is_last = asked.tries >= _TRIES
    ends = asked.at + _AGAIN_AFTER[min(asked.tries, len(_AGAIN_AFTER)) - 1]
    # A clock that has gone back holds nothing up.
    waits = asked.at <= now < ends
    if not waits and not (is_last and digest == asked.files):
        return None
    times = "1 run" if asked.tries == 1 else f"{asked.tries} runs"
    told = f"{what}, and {times} read nothing: look why the last one failed"
    minutes = -(-(ends - now) // _MINUTE)
    if not is_last:
        return f"{told}; attempt {asked.tries + 1} of {_TRIES} in {minutes} min"
    what_to_do = "mend it and start the job by hand, or reset this sensor's cursor: none starts by itself any more"
    later = f" but for what comes yet, in {minutes} min" if waits else " but for what comes yet"
    return f"{told}; {what_to_do},{later}"
