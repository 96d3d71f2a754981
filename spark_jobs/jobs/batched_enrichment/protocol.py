"""Define the protocol between `batched_enrichment` and the service that it calls.

A call is a POST of JSON, with times in ISO 8601 (UTC) and a key that is the same for the same events in the same order:

    Idempotency-Key: 3f0c…            {"events": [{…}, {…}, …]}
    Authorization: Bearer …           (only if the service's settings name a token)

The answer is 200 with one result per event, in the same order:

    {"results": [{"status": 200, "enrichment": {…}}, {"status": 422, "error": "…"}, {"status": 503, "error": "…"}]}

- Retried (`Outcome.is_final`): 408, 425, 429 and 5xx, for a whole call or one event; no answer in time; no connection; a malformed
  answer. `Retry-After` (seconds or a date) is followed.
- Final: any other status of a call or an event.
- **A repeated key** (after a time-out, or a crash of the caller) must get the same answer without repeating the work. A call
  that failed as a whole was not answered: its key may be used again.
- If some events of an answered call are retried, they are sent without the others under a new key, made of these events and of
  the number of answers before. So the work on an event is done once, even if the caller crashes meanwhile.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

KEY_HEADER = "Idempotency-Key"
MAX_EVENTS = 10_000
"""Largest number of events in one call."""

_RETRYABLE = frozenset({408, 425, 429, *range(500, 600)})


@dataclass(frozen=True, eq=False)
class Batch:
    """The events of one call.

    Attributes:
        scope: the caller and its share of the events; part of the key.
        ids: each event's id as JSON text, in order.
        events: each event as a JSON object, in the same order.
        answers: number of earlier answers after which these events are retried.
    """

    scope: str
    ids: pl.Series
    events: pl.Series
    answers: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def idempotency_key(self) -> str:
        """SHA-256 (hex) of scope, answers, ids and events, one line each: JSON text written by Polars has no line breaks.

        It includes the events, since an event that was corrected under its old id needs a new answer.
        """
        scope = f"{self.scope}/{self.answers}" if self.answers else self.scope
        return hashlib.sha256("\n".join([scope, *self.ids, *self.events]).encode()).hexdigest()

    def body(self) -> bytes:
        """Return the JSON of the call."""
        return ('{"events":[' + ",".join(self.events) + "]}").encode()

    def again(self, positions: Sequence[int]) -> "Batch":
        """Return the batch of the events at these positions, to retry after an answer."""
        return Batch(self.scope, self.ids[positions], self.events[positions], self.answers + 1)


class Outcome(NamedTuple):
    """The outcome of an event.

    Attributes:
        enrichment: the service's answer as JSON text; None if the event failed for good.
        attempts: number of calls that contained the event.
        status: HTTP status of the last answer, None without an answer.
        answer: for a failure, the message of the service or the network.
    """

    enrichment: str | None
    attempts: int
    status: int | None = None
    answer: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether the event is not sent again: it has an enrichment, or an answer that will not change."""
        status = self.status
        is_failure = status is not None and not 200 <= status <= 299
        return self.enrichment is not None or (is_failure and status not in _RETRYABLE)


Call = Callable[[Batch], Awaitable[Sequence[Outcome]]]
"""Sends a batch, with retries, and returns one outcome per event, in the same order."""
