"""What the jobs of the contract must come to, by plain Python over all of the clicks."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from tests.keyfold.keyed.toy_jobs import LENGTH

Clicks = list[tuple[str, datetime]]


class Windows:
    """Clicks of a user in each ten minutes; late is who comes when these were over at the run's start."""

    columns = ("user", "window", "clicks")

    def __init__(self) -> None:
        self.open: Counter[tuple[str, datetime]] = Counter()
        self.output: list[tuple[Any, ...]] = []
        self.late: Clicks = []

    def take(self, came: Clicks, before: datetime | None, after: datetime) -> None:
        for user, at in came:
            if before is not None and self.is_over(self.begins(at), before):
                self.late.append((user, at))
            else:
                self.open[user, self.begins(at)] += 1
        for user, window in [one for one in self.open if self.is_over(one[1], after)]:
            self.output += self.written(user, window, self.open.pop((user, window)))

    def begins(self, at: datetime) -> datetime:
        return at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0)

    def is_over(self, window: datetime, watermark: datetime) -> bool:
        return window + LENGTH <= watermark

    def written(self, user: str, window: datetime, count: int) -> list[tuple[Any, ...]]:
        return [(user, window, count)]

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of state, in the columns of the oracle."""
        return [(*key, count) for key, count in self.open.items()]

    def events(self) -> int:
        return self.open.total()


class Passed(Windows):
    """Clicks, each given out once the watermark has passed it."""

    columns = ("user", "at")

    def begins(self, at: datetime) -> datetime:
        return at

    def is_over(self, window: datetime, watermark: datetime) -> bool:
        return window <= watermark

    def written(self, user: str, window: datetime, count: int) -> list[tuple[Any, ...]]:
        return [(user, window)] * count

    def rows(self) -> list[tuple[Any, ...]]:
        return list(self.open.elements())


class Notes:
    """What `notes_step` makes of its clicks, one after the other: rows that it keeps though they are due are so in each batch."""

    columns = ("user", "at", "deadline")
    delay = timedelta(0)

    def __init__(self) -> None:
        self.state: dict[str, list[tuple[Any, ...]]] = {}
        self.output: list[tuple[Any, ...]] = []
        self.late: Clicks = []

    def take(self, came: Clicks, before: datetime | None, after: datetime) -> None:
        by_user = defaultdict(list)
        start = datetime.min.replace(tzinfo=UTC) if before is None else before
        # Those behind the watermark come together, as of the watermark.
        for user, at in sorted(came, key=lambda click: click[1]):
            by_user[user].append((max(at, start), at))
        for user in {*self.state, *by_user}:
            fired: datetime | None = None
            for moment, together in groupby(by_user[user], key=lambda moment_and_time: moment_and_time[0]):
                watermark = max(min(moment - self.delay - timedelta(microseconds=1), after), start)
                fired = self.fire(user, fired, start, watermark)
                self.give_out_many(user, start if fired is None else max(fired, start))
                for _, at in together:
                    self.click(user, at)
            self.fire(user, fired, start, after)
        self.state = {user: rows for user, rows in self.state.items() if rows}

    def fire(self, user: str, fired: datetime | None, start: datetime, until: datetime) -> datetime | None:
        """Call for each deadline until a watermark, one after the other, at none that is before the start; returns the last."""
        while due := [
            deadline
            for _, deadline in self.state.get(user, [])
            if deadline is not None and deadline <= until and (fired is None or deadline > fired)
        ]:
            fired = earliest = min(due)
            self.give_out_many(user, max(earliest, start))
        return fired

    def give_out_many(self, user: str, watermark: datetime) -> None:
        due = [deadline for _, deadline in self.state.get(user, []) if deadline is not None and deadline <= watermark]
        if len(due) > 2:
            self.give_out(user)

    def give_out(self, user: str) -> None:
        self.output += [(user, at) for at, _ in self.state.pop(user, [])]

    def click(self, user: str, at: datetime) -> None:
        # Those of one moment stay together.
        rows = self.state.get(user, [])
        if at.minute % 10 == 7 and not (rows and rows[-1][0] == at):
            self.give_out(user)
        self.state.setdefault(user, []).append((at, self.deadline(at)))

    def deadline(self, at: datetime) -> datetime | None:
        return None if at.minute % 2 else at.replace(minute=at.minute // 10 * 10, second=0, microsecond=0) + LENGTH

    def rows(self) -> list[tuple[Any, ...]]:
        return [(user, *row) for user, rows in self.state.items() for row in rows]

    def events(self) -> int:
        return len(self.rows())
