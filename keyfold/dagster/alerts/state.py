"""Store the state of alerts between looks, as one value in Dagster's storage, written by one process."""

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
    """The state between two looks.

    Attributes:
        raised: raised conditions, by source and name.
        place: storage id of the last end of a run that was read, None before the first look.
        counts: rows accepted and quarantined up to the last look, by stream.
        queues: waiting alerts, by destination.
    """

    raised: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)
    place: int | None = None
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)

    @classmethod
    def load(cls, instance: dg.DagsterInstance) -> "State":
        """Load the state from an instance; it is empty at first."""
        found = instance.daemon_cursor_storage.get_cursor_values({_KEY}).get(_KEY)
        return cls.parse(json.loads(found)) if found else cls()

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> "State":
        """Rebuild a state from its JSON."""
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
        """Store the state in an instance."""
        instance.daemon_cursor_storage.set_cursor_values({_KEY: json.dumps(asdict(self))})
