"""What is said between `batched_enrichment` and the service that it calls.

The call is a POST of JSON, times in ISO 8601 (UTC), with a key that the same events in the same order have again:

    Idempotency-Key: 3f0c…            {"events": [{…}, {…}, …]}
    Authorization: Bearer …           (only where the service's settings name a token)

The answer is 200 with one result an event, in the same order:

    {"results": [{"status": 200, "enrichment": {…}}, {"status": 422, "error": "…"}, {"status": 503, "error": "…"}]}

- Worth another try (`is_retryable`): 408, 425, 429 and 5xx, of a whole call or of one event of it; no answer in time; no
  connection; an answer of another shape. `Retry-After` (seconds or a date) is heard.
- Final: any other status, of a call or an event.
- **A key that comes again** (after a time-out, or a crash on the caller's side) is answered as it was, without doing the
  work twice. A call that failed as a whole was not answered: its key is free.
- Of a call that was answered, the events worth another try come again alone, with a key of their own: of those events
  and of how many answers there were before. So the work on an event is done once even where a caller crashes between.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

KEY_HEADER = "Idempotency-Key"
MAX_EVENTS = 10_000
"""Of one call."""

_RETRYABLE = frozenset({408, 425, 429})


@dataclass(frozen=True, eq=False)
class Batch:
    """The events of one call.

    Attributes:
        scope: who calls, and for which share of the events; part of the key.
        ids: each event's id as JSON text, in order.
        events: each event as a JSON object, in the same order.
        answers: how many answers to a larger batch, or to this one, said to try these again.
    """

    scope: str
    ids: pl.Series
    events: pl.Series
    answers: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def idempotency_key(self) -> str:
        """SHA-256 (hex) of scope, answers, ids and events, a line each: JSON text as Polars writes it has no line breaks.

        The events too: one that was corrected under its old id is another question.
        """
        scope = f"{self.scope}/{self.answers}" if self.answers else self.scope
        return hashlib.sha256("\n".join([scope, *self.ids, *self.events]).encode()).hexdigest()

    def body(self) -> bytes:
        """The JSON of the call."""
        return ('{"events":[' + ",".join(self.events) + "]}").encode()

    def again(self, positions: Sequence[int]) -> "Batch":
        """The batch of those events at these positions, which an answer said to try again."""
        return Batch(self.scope, self.ids[positions], self.events[positions], self.answers + 1)


class Outcome(NamedTuple):
    """What became of an event.

    Attributes:
        enrichment: the service's answer as JSON text; None where it failed for good.
        attempts: how many calls the event was in.
        status: HTTP status of the last answer to it, None where there was none.
        answer: of a failure, what the service or the network said.
    """

    enrichment: str | None
    attempts: int
    status: int | None = None
    answer: str | None = None


Call = Callable[[Batch], Sequence[Outcome]]
"""Asks about a batch and gives one outcome an event, in the same order; does its own retries."""


def is_retryable(status: int) -> bool:
    """Whether an HTTP status is worth another try."""
    return status in _RETRYABLE or 500 <= status <= 599
