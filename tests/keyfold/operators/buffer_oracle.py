"""Which events leave together, in plain Python, one key and one event at a time."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(order=True)
class _Waiting:
    at: datetime
    number: int
    came_at: datetime = field(compare=False)


@dataclass
class Oracle:
    """A buffer; events are their key, time and number, which orders those of one time."""

    size: int
    wait: timedelta | None
    processing_wait: timedelta | None
    keys: dict[str, list[_Waiting]] = field(default_factory=lambda: defaultdict(list))

    def batch(self, events: list[tuple[str, datetime, int]], watermark: datetime, now: datetime) -> list[tuple]:
        """The batches of one micro-batch: key, and the numbers of its events in order."""
        left = []
        # What has waited for too long goes before the new events come.
        for key, waiting in self.keys.items():
            if self.processing_wait and any(one.came_at + self.processing_wait <= now for one in waiting):
                left.append(self._leave(key, len(waiting)))
        for key, at, number in events:
            self.keys[key].append(_Waiting(at, number, now))
        for key, waiting in self.keys.items():
            waiting.sort()
            while len(waiting) >= self.size:
                left.append(self._leave(key, self.size))
            if self.wait is not None and waiting and waiting[0].at + self.wait <= watermark:
                left.append(self._leave(key, len(waiting)))
        return sorted(left)

    def _leave(self, key: str, many: int) -> tuple:
        return key, tuple(self.keys[key].pop(0).number for _ in range(many))
