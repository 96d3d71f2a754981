"""A topic as a source of new data: what lies between the end of its partitions and what ingest has read of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from keyfold.dagster.automation.starting.asking import UNDONE, Asked, held_back
from keyfold.dagster.automation.starting.new_data import Decision
from keyfold.errors import KeyfoldError
from keyfold.ingestion.sources.kafka.offsets import ReadTopic, TopicState, unread


@dataclass(frozen=True)
class TopicSource:
    """Messages of a topic.

    Attributes:
        state: gives what the topic holds.
        read: gives how far ingest has read it, None where it has not.
        unfinished: tells whether a run of ingest broke off.
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
    """Whether to ask for a run: there are messages that ingest has not read, or it broke off; as `new_data.decide` does.

    Args:
        state: what the topic holds.
        read: how far ingest has read it.
        cursor: of the last decision, None at first.
        now: nanoseconds since 1970.
        unfinished: whether a run of ingest broke off.

    Raises:
        KeyfoldError: the cursor is none of this sensor's.
    """
    before = Asked.read(cursor)
    lag = unread(state, read)
    if not lag and not unfinished:
        return Decision(before.text(), reason=f"no new messages in topic {state.name}")
    digest = blake2b(f"{state.id}{sorted(state.end.items())}{unfinished}".encode(), digest_size=8).hexdigest()
    # What tells is whether anything was read, not how much there is: where messages come all the time, a fault that no
    # run gets over would else start runs as often as a tick comes.
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
