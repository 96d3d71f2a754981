"""The outbox: messages arrive in their order, wait a bounded number at a time, and are tried ever later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.automation.outbox import MOST_BYTES, MOST_MESSAGES, SECONDS_A_TICK, Outbox, deliver
from dagster_project.automation.webhook import SECONDS, RefusedError, WebhookError


@dataclass
class Webhook:
    """Takes, refuses or does not answer, as the script says, and each takes its time."""

    script: list[str] = field(default_factory=list)
    seconds: float = 0
    now: float = 1_000_000.0
    got: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    saved: list[Outbox] = field(default_factory=list)

    def send(self, content: Mapping[str, Any]) -> None:
        self.now += self.seconds
        said = self.script.pop(0) if self.script else "taken"
        if said == "away":
            raise WebhookError("it is away")
        if said == "refused":
            raise RefusedError("it answered 400")
        self.got.append(content["text"])

    def deliver(self, outbox: Outbox) -> Outbox:
        return deliver(outbox, self.send, save=self.saved.append, log=self.logged.append, clock=lambda: self.now)


def outbox_of(*texts: str) -> Outbox:
    outbox = Outbox()
    for number, text in enumerate(texts):
        outbox = outbox.add({"text": text}, f"cursor {number}", [number])
    return outbox


def test_messages_arrive_in_their_order_and_each_is_forgotten_when_it_was_taken():
    webhook = Webhook()
    assert webhook.deliver(outbox_of("a", "b", "c")).messages == []
    assert webhook.got == ["a", "b", "c"]
    assert [len(saved.messages) for saved in webhook.saved] == [2, 1, 0]


def test_one_that_cannot_be_delivered_holds_the_later_ones_until_it_can():
    webhook = Webhook(["taken", "away"])
    left = webhook.deliver(outbox_of("a", "b", "c"))
    assert [one["text"] for one in left.messages] == ["b", "c"]
    assert webhook.deliver(left) == left, "not before its time"
    webhook.now = left.not_before
    assert webhook.deliver(left).messages == []
    assert webhook.got == ["a", "b", "c"]


def test_a_webhook_that_is_away_is_tried_ever_later_and_not_for_ever_later():
    webhook, outbox, pauses = Webhook(["away"] * 8), outbox_of("a"), []
    for _ in range(8):
        outbox = webhook.deliver(outbox)
        pauses.append(outbox.not_before - webhook.now)
        webhook.now = outbox.not_before
    assert pauses == [60, 120, 240, 480, 900, 900, 900, 900]
    assert webhook.deliver(outbox).failures == 0


def test_one_that_is_refused_is_logged_and_dropped_and_the_next_says_so():
    webhook = Webhook(["refused", "refused"])
    webhook.deliver(outbox_of("a", "b", "c", "d"))
    assert webhook.got == ["c\n2 messages before this one could not be delivered and are lost", "d"]
    assert webhook.logged == [
        "it answered 400: this message is dropped: a",
        "it answered 400: this message is dropped: b",
    ]


def test_of_too_many_the_oldest_are_dropped_and_counted():
    outbox = outbox_of(*(str(number) for number in range(MOST_MESSAGES + 30)))
    assert (len(outbox.messages), outbox.dropped, outbox.messages[0]["text"]) == (MOST_MESSAGES, 30, "30")
    webhook = Webhook()
    webhook.deliver(outbox)
    assert webhook.got[0].startswith("30\n30 messages before this one")
    assert webhook.got[1:3] == ["31", "32"]


def test_long_messages_are_bounded_by_their_bytes_and_the_last_is_kept_whatever_its_length():
    outbox = outbox_of(*("x" * (MOST_BYTES // 3) for _ in range(9)))
    assert (len(outbox.messages), outbox.dropped) == (2, 7)
    assert len(outbox_of("x" * (2 * MOST_BYTES)).messages) == 1


def test_a_slow_webhook_takes_no_more_of_a_tick_than_its_share():
    webhook = Webhook(seconds=SECONDS - 1)
    began = webhook.now
    left = webhook.deliver(outbox_of(*"abcdefgh"))
    assert webhook.now - began <= SECONDS_A_TICK
    assert left.messages
    assert webhook.got == ["a", "b"]


def test_what_was_added_before_a_tick_was_cut_off_is_known_to_the_next():
    outbox = Outbox().add({"text": "a"}, "the cursor", [7, 8])
    assert outbox.is_known("the cursor", 8)
    assert not outbox.is_known("the cursor", 9)
    assert not outbox.is_known("a later cursor", 8)
    more = outbox.add({"text": "b"}, "the cursor", [9])
    assert more.is_known("the cursor", 7)
    assert more.is_known("the cursor", 9)


def test_it_is_kept_in_dagster_s_own_storage_as_it_is(tmp_path):
    outbox = outbox_of("a", "b")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert Outbox.load(instance) == Outbox()
        outbox.save(instance)
        kept = Outbox.load(instance)
    assert (list(kept.messages), kept.page, list(kept.ends)) == (list(outbox.messages), outbox.page, list(outbox.ends))


@given(st.lists(st.sampled_from(["taken", "away", "refused", "add"]), max_size=80))
def test_whatever_happens_each_message_arrives_once_in_order_or_is_counted_as_lost(script):
    webhook, outbox, added, lost = Webhook(), Outbox(), 0, 0
    for said in script:
        if said == "add":
            outbox = outbox.add({"text": str(added)}, f"cursor {added}", [added])
            added += 1
            continue
        if said == "refused" and outbox.messages:
            lost += 1
        webhook.script = [said, "away"]
        webhook.now = max(webhook.now, outbox.not_before)
        outbox = webhook.deliver(outbox)
    numbers = [int(text.partition("\n")[0]) for text in webhook.got]
    waiting = [int(one["text"]) for one in outbox.messages]
    assert numbers + waiting == sorted({*numbers, *waiting})
    assert len(numbers) + len(waiting) + lost == added
