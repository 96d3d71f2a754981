"""Alerts on their way: kept in Dagster's own storage until the webhook takes them, in their order.

A message is kept before the sensor's cursor passes what it tells of, and goes when it was taken. A webhook that cannot
be had is tried again, ever later; meanwhile messages wait, a bounded number of them: of more, the oldest are dropped,
and the next that is taken says how many. One that the webhook refuses is dropped, else it would hold up all others.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from dagster_project.automation.webhook import SECONDS, RefusedError, WebhookError

MOST_MESSAGES = 100
MOST_BYTES = 250_000
"""Of all messages: they are one value of a database, written again whenever one is added or taken."""

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 900.0
"""Seconds until the webhook is tried again; they double from time to time."""

SECONDS_A_TICK = 25.0
"""For sending: Dagster gives a sensor's tick 60 by default."""

_KEY = "keyfold/alerts"


@dataclass(frozen=True)
class Outbox:
    """What waits.

    Attributes:
        messages: JSON objects with a `text`, oldest first.
        dropped: how many were dropped since one was last taken.
        failures: how often in a row the webhook could not be had.
        not_before: when it may be tried again, seconds since 1970.
        page: the sensor's cursor at which messages were last added,
        ends: and the ends of runs that they told of: a tick that is cut off before its cursor is kept reads these again.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    dropped: int = 0
    failures: int = 0
    not_before: float = 0
    page: str = ""
    ends: Sequence[int] = ()

    @classmethod
    def load(cls, instance: dg.DagsterInstance) -> "Outbox":
        """The outbox of an instance."""
        found = instance.daemon_cursor_storage.get_cursor_values({_KEY}).get(_KEY)
        return cls(**json.loads(found)) if found else cls()

    def save(self, instance: dg.DagsterInstance) -> None:
        """Keep it."""
        instance.daemon_cursor_storage.set_cursor_values({_KEY: json.dumps(asdict(self))})

    def is_known(self, page: str, end: int) -> bool:
        """Whether a run's end was told of by what was added last."""
        return page == self.page and end in self.ends

    def add(self, content: Mapping[str, Any], page: str, ends: Sequence[int]) -> "Outbox":
        """With one more message, of the ends of runs that were read at a cursor."""
        known = self.ends if page == self.page else ()
        messages = [*self.messages, content]
        sizes = [len(json.dumps(one)) for one in messages]
        first = 0
        # One message is kept however long it is.
        while len(messages) - first > MOST_MESSAGES or (first < len(messages) - 1 and sum(sizes[first:]) > MOST_BYTES):
            first += 1
        return replace(
            self, messages=messages[first:], dropped=self.dropped + first, page=page, ends=sorted({*known, *ends})
        )

    def describe(self, now: float) -> str:
        """What waits, in words; empty where nothing does."""
        if not self.messages and not self.dropped:
            return ""
        waiting = f"{_messages(len(self.messages))} wait{'s' if len(self.messages) == 1 else ''}"
        later = f", tried again in {max(0, self.not_before - now):.0f} s" if self.failures else ""
        lost = f"; {_messages(self.dropped)} dropped" if self.dropped else ""
        return f"{waiting}{later}{lost}"


def deliver(
    outbox: Outbox,
    send: Callable[[Mapping[str, Any]], None],
    *,
    save: Callable[[Outbox], None],
    log: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Outbox:
    """Send what waits, oldest first, until one is not taken or the time is up.

    Args:
        outbox: what waits.
        send: takes a message, or raises `WebhookError` or `RefusedError`.
        save: keeps what is left, after every message: one that was taken is not sent again.
        log: is told of what is not taken.
        clock: seconds since 1970.
    """
    ends_at = clock() + SECONDS_A_TICK
    while outbox.messages and outbox.not_before <= clock() <= ends_at - SECONDS:
        first, *rest = outbox.messages
        try:
            send(_with_dropped(first, outbox.dropped))
        except WebhookError as error:
            log(str(error))
            pause = min(FIRST_PAUSE * 2**outbox.failures, LONGEST_PAUSE)
            outbox = replace(outbox, failures=outbox.failures + 1, not_before=clock() + pause)
            save(outbox)
            break
        except RefusedError as error:
            log(f"{error}: this message is dropped: {first['text']}")
            # It has answered, so it can be had: the next message need not wait.
            outbox = replace(outbox, messages=rest, dropped=outbox.dropped + 1, failures=0, not_before=0)
        else:
            outbox = replace(outbox, messages=rest, dropped=0, failures=0, not_before=0)
        save(outbox)
    return outbox


def _with_dropped(content: Mapping[str, Any], dropped: int) -> Mapping[str, Any]:
    if not dropped:
        return content
    said = f"{_messages(dropped)} before this one could not be delivered and {'is' if dropped == 1 else 'are'} lost"
    return {**content, "text": f"{content['text']}\n{said}", "lost_messages": dropped}


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
