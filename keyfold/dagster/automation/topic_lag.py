"""Decide whether a topic has unread messages, by comparing its end offsets with those that ingest has read."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from keyfold.dagster.automation.asking import UNDONE, Asked, held_back
from keyfold.dagster.automation.new_data import Decision
from keyfold.errors import KeyfoldError
from keyfold.ingestion.sources.kafka.offsets import ReadTopic, TopicState, unread


@dataclass(frozen=True)
class TopicSource:
    """Messages of a topic.

    Attributes:
        state: returns the topic's offsets.
        read: returns the offsets that ingest has read, None before the first read.
        unfinished: returns whether a run of ingest was interrupted.
    """

    state: Callable[[], TopicState]
    read: Callable[[], ReadTopic | None]
    unfinished: Callable[[], bool] = bool

    def poll(self, cursor: str | None) -> Decision:
        """Ask the brokers and decide."""
        now = time.time_ns()
        try:
            state = self.state()
        except KeyfoldError as error:
            return Decision(cursor, reason=str(error))
        return decide_on_lag(state, self.read(), cursor, now, unfinished=self.unfinished())


def decide_on_lag(
    state: TopicState, read: ReadTopic | None, cursor: str | None, now: int, *, unfinished: bool = False
) -> Decision:
    """Request a run if there are unread messages, or if ingest was interrupted; retries as `new_data.decide` does.

    Args:
        state: the topic's offsets.
        read: the offsets that ingest has read.
        cursor: the cursor of the last decision, None at first.
        now: nanoseconds since 1970.
        unfinished: whether a run of ingest was interrupted.

    Raises:
        KeyfoldError: the cursor is invalid.
    """
    before = Asked.read(cursor)
    lag = unread(state, read)
    if not lag and not unfinished:
        return Decision(before.text(), reason=f"no new messages in topic {state.name}")
    # The topic's id is part of it: a recreated topic may reach the same offsets.
    digest = blake2b(f"{state.id}{sorted(state.end.items())}{unfinished}".encode(), digest_size=8).hexdigest()
    # Attempts are counted until something is read: otherwise, where messages arrive all the time, a lasting fault would
    # start a run at every tick.
    progress = sum(read.next.values()) if read else 0
    tries = before.tries + 1 if progress == before.known else 1
    what = f"{lag:,} messages of topic {state.name} are new" if lag else UNDONE
    if waits := held_back(what, before, now, digest) if tries > 1 else None:
        return Decision(before.text(), reason=waits)
    return Decision(
        Asked(digest, tries, now, known=progress).text(),
        new=lag or 1,
        attempt=tries,
        metadata={"topic": state.name, "new_messages": lag, "partitions": len(state.end)},
    )
