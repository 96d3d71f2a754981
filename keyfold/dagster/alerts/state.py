"""What alerts keep from look to look, in Dagster's own storage: one value, written by one process."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from keyfold.dagster.alerts.condition import Condition
from keyfold.dagster.alerts.outbox import Queue

_KEY = "keyfold/alerts/state"


@dataclass(frozen=True)
class State:
    """What is kept.

    Attributes:
        raised: conditions by name, by the source that found them.
        place: storage id of the last end of a run that was read, None before the first look.
        counts: rows accepted and quarantined at the last look, by stream.
        queues: what waits, by destination.
    """

    raised: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)
    place: int | None = None
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)

    @classmethod
    def load(cls, instance: dg.DagsterInstance) -> "State":
        """The state of an instance; an empty one at first."""
        found = instance.daemon_cursor_storage.get_cursor_values({_KEY}).get(_KEY)
        return cls.parse(json.loads(found)) if found else cls()

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> "State":
        """What `asdict` and JSON have made of one."""
        return cls(
            {
                source: {name: Condition(**one) for name, one in some.items()}
                for source, some in found["raised"].items()
            },
            found["place"],
            {stream: (accepted, quarantined) for stream, (accepted, quarantined) in found["counts"].items()},
            {name: Queue(**queue) for name, queue in found["queues"].items()},
        )

    def save(self, instance: dg.DagsterInstance) -> None:
        """Keep it."""
        instance.daemon_cursor_storage.set_cursor_values({_KEY: json.dumps(asdict(self))})
