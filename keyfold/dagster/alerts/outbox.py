"""Alerts on their way: what waits for one destination, in its order, until it is taken.

A destination that cannot be had is tried again, ever later; meanwhile alerts wait, a bounded number of them: of more, the
oldest are dropped, and the next message that is taken says how many. What is refused for its content is dropped, else it
would hold up all others. Destinations do not wait for each other.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MOST_WAITING = 100

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 900.0
"""Seconds until a destination is tried again; they double from time to time."""


class NotTakenError(Exception):
    """A message was not taken, and may be later; says why without the destination's address."""


class RefusedError(Exception):
    """A message was not taken and never will be; says why without the destination's address."""


Send = Callable[[Sequence[dict[str, Any]], int], None]
"""Sends alerts in one message, and how many before them were lost; raises `NotTakenError` or `RefusedError`."""


@dataclass(frozen=True)
class Queue:
    """What waits for one destination.

    Attributes:
        waiting: alerts as JSON objects, oldest first.
        lost: how many were dropped since a message was last taken.
        failures: how often in a row the destination could not be had.
        not_before: when it may be tried again, seconds since 1970.
    """

    waiting: Sequence[Mapping[str, Any]] = ()
    lost: int = 0
    failures: int = 0
    not_before: float = 0

    def add(self, entries: Sequence[Mapping[str, Any]]) -> "Queue":
        """With more alerts behind those that wait."""
        waiting = [*self.waiting, *entries]
        return replace(
            self, waiting=tuple(waiting[-MOST_WAITING:]), lost=self.lost + max(0, len(waiting) - MOST_WAITING)
        )


def deliver(
    queue: Queue,
    send: Send,
    *,
    most: int = MOST_WAITING,
    save: Callable[[Queue], None],
    log: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Queue:
    """Send what waits, oldest first, until a message is not taken.

    Args:
        queue: what waits.
        send: sends alerts.
        most: alerts in one message.
        save: keeps what is left, after every message: one that was taken is not sent again.
        log: takes the reasons of what is not taken.
        clock: seconds since 1970.
    """
    while queue.waiting and queue.not_before <= clock():
        some, rest = [dict(one) for one in queue.waiting[:most]], tuple(queue.waiting[most:])
        try:
            send(some, queue.lost)
        except NotTakenError as error:
            pause = min(FIRST_PAUSE * 2**queue.failures, LONGEST_PAUSE)
            log(f"{error}; {len(queue.waiting)} alerts wait, tried again in {pause:.0f} s")
            queue = replace(queue, failures=queue.failures + 1, not_before=clock() + pause)
            save(queue)
            break
        except RefusedError as error:
            log(f"{error}; {len(some)} alerts are dropped: {', '.join(one['condition'] for one in some)}")
            # It has answered, so it can be had: the next message need not wait.
            queue = Queue(rest, queue.lost + len(some))
        else:
            queue = Queue(rest)
        save(queue)
    return queue
