"""Queue alerts per destination, and deliver them in order.

If a destination cannot be reached, delivery is retried with growing pauses. Meanwhile a bounded number of alerts waits; the
oldest are dropped beyond that, and the next delivered message says how many. A message that is refused for its content is
dropped, so that it does not block the others. Destinations do not wait for each other.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MOST_WAITING = 100

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 900.0
"""Seconds until a destination is tried again; they double after each failure."""


class NotTakenError(Exception):
    """A message was not accepted, but may be later. The text does not contain the destination's address."""


class RefusedError(Exception):
    """A message was refused for good. The text does not contain the destination's address."""


Send = Callable[[Sequence[dict[str, Any]], int], None]
"""Sends alerts and the number of lost ones in one message; raises `NotTakenError` or `RefusedError`."""


@dataclass(frozen=True)
class Queue:
    """The alerts that wait for one destination.

    Attributes:
        waiting: alerts as JSON objects, oldest first.
        lost: number of alerts dropped since the last accepted message.
        failures: number of failures in a row.
        not_before: when to try again, in seconds since 1970.
    """

    waiting: Sequence[Mapping[str, Any]] = ()
    lost: int = 0
    failures: int = 0
    not_before: float = 0

    def add(self, entries: Sequence[Mapping[str, Any]]) -> "Queue":
        """Return the queue with more alerts at its end."""
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
    """Send the waiting alerts, oldest first, until a message is not accepted.

    Args:
        send: sends alerts.
        most: largest number of alerts in one message.
        save: stores the remaining queue after every message, so that an accepted message is not sent again.
        log: receives the reasons of failures.
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
            # The destination has answered, so the next message need not wait.
            queue = Queue(rest, queue.lost + len(some))
        else:
            queue = Queue(rest)
        save(queue)
    return queue
