"""The outbox: alerts arrive in their order, wait a bounded number at a time, and are tried ever later."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keyfold.dagster.alerts.outbox import MOST_WAITING, NotTakenError, Queue, RefusedError, deliver


@dataclass
class Service:
    """Takes, refuses or does not answer, as the script says."""

    script: list[str] = field(default_factory=list)
    now: float = 1_000_000.0
    got: list[str] = field(default_factory=list)
    lost: int = 0
    logged: list[str] = field(default_factory=list)
    saved: list[Queue] = field(default_factory=list)

    def send(self, entries: Sequence[dict[str, Any]], lost: int) -> None:
        said = self.script.pop(0) if self.script else "taken"
        if said == "away":
            raise NotTakenError("it is away")
        if said == "refused":
            raise RefusedError("it answered 400")
        self.got += [one["condition"] for one in entries]
        self.lost += lost

    def deliver(self, queue: Queue, most: int = 1) -> Queue:
        return deliver(
            queue, self.send, most=most, save=self.saved.append, log=self.logged.append, clock=lambda: self.now
        )


def queue_of(*names: str) -> Queue:
    return Queue().add([{"condition": name} for name in names])


def test_one_that_cannot_be_delivered_holds_the_later_ones_until_it_can():
    service = Service(["taken", "away"])
    left = service.deliver(queue_of("a", "b", "c"))
    assert [one["condition"] for one in left.waiting] == ["b", "c"]
    assert service.logged == ["it is away; 2 alerts wait, tried again in 60 s"]
    assert service.deliver(left) == left, "not before its time"
    service.now = left.not_before
    assert service.deliver(left).waiting == ()
    assert service.got == ["a", "b", "c"]


def test_a_service_that_is_away_is_tried_ever_later_and_not_for_ever_later():
    service, queue, pauses = Service(["away"] * 8), queue_of("a"), []
    for _ in range(8):
        queue = service.deliver(queue)
        pauses.append(queue.not_before - service.now)
        service.now = queue.not_before
    assert pauses == [60, 120, 240, 480, 900, 900, 900, 900]
    assert service.deliver(queue).failures == 0


@given(st.lists(st.sampled_from(["taken", "away", "refused", "add"]), max_size=80), st.integers(1, 3))
def test_whatever_happens_each_alert_arrives_once_in_order_or_is_counted_as_lost(script, most):
    service, queue, added = Service(), Queue(), 0
    for said in script:
        if said == "add":
            queue = queue.add([{"condition": str(added)}])
            added += 1
            continue
        service.script = [said, "away"]
        service.now = max(service.now, queue.not_before)
        queue = service.deliver(queue, most)
    arrived, waiting = [int(name) for name in service.got], [int(one["condition"]) for one in queue.waiting]
    assert arrived + waiting == sorted({*arrived, *waiting})
    assert len(arrived) + len(waiting) + service.lost + queue.lost == added


def test_of_too_many_the_oldest_are_dropped_and_counted():
    queue = queue_of(*(str(number) for number in range(MOST_WAITING + 30)))
    assert (len(queue.waiting), queue.lost, queue.waiting[0]["condition"]) == (MOST_WAITING, 30, "30")
