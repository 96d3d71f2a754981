"""Which events go together, in plain Python, one shard and one event at a time: what the job must agree with."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

Event = dict


@dataclass
class _Waiting:
    event: Event
    came_at: datetime


@dataclass
class Oracle:
    max_size: int
    max_wait: timedelta
    stale_after: timedelta
    shards: dict[int, list[_Waiting]] = field(default_factory=lambda: defaultdict(list))

    def batch(self, events: list[Event], watermark: datetime, now: datetime) -> list[tuple]:
        """The calls of one micro-batch: shard, and the ids of its events in order."""
        calls = []
        # What has waited for too long goes before the new events come.
        for shard, waiting in self.shards.items():
            if waiting and min(one.came_at for one in waiting) + self.stale_after <= now:
                calls.append(_call(shard, waiting))
                self.shards[shard] = []
        for event in events:
            self.shards[event["shard"]].append(_Waiting(event, now))
        for shard, waiting in self.shards.items():
            waiting.sort(key=lambda one: (one.event["timestamp"], one.event["ride_id"], one.event["point_idx"]))
            while len(waiting) >= self.max_size:
                calls.append(_call(shard, [waiting.pop(0) for _ in range(self.max_size)]))
            if waiting and waiting[0].event["timestamp"] + self.max_wait <= watermark:
                calls.append(_call(shard, waiting))
                self.shards[shard] = []
        return sorted(calls)

    @property
    def open_events(self) -> int:
        return sum(map(len, self.shards.values()))


def _call(shard: int, waiting: list[_Waiting]) -> tuple:
    return shard, tuple((one.event["ride_id"], one.event["point_idx"]) for one in waiting)
