"""An input that is added to a job, or taken away: a move of its state where that can go on, a refresh where not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from keyfold import IncompatibleState, Input, Stream
from keyfold.state.changing.moving import move, plan_change
from tests.shop import MINUTE, NOON, ORDERS, PAYMENT, PAYMENTS, orders, payments
from tests.two_inputs import Till, end_of_hour, orders_and_payments

BOTH = orders_and_payments()
REFUNDS = Stream("refunds", PAYMENT, event_time="paid_at")
FURTHER = {"further": Input(REFUNDS, columns=PAYMENT, delay="10m", final_at=end_of_hour("paid_at"), conserved=False)}


def with_inputs(inputs):
    return replace(BOTH, inputs=inputs)


@pytest.fixture
def home(tmp_path, without_spark):
    home = Till(tmp_path)
    home.land(ORDERS, orders(("a", 0, "tea"), ("b", 70, "jam")))
    home.land(PAYMENTS, payments(("a", 5, 4), ("b", 80, 9)))
    home.run()
    home.land(REFUNDS, payments(("a", 5, 1), ("d", 125, 2)))
    return home


ORDERS_READ = BOTH.inputs["orders"]
CHANGES = [
    ({**BOTH.inputs, **FURTHER}, "move", "it begins at the job's position in its table, or at"),
    ({"orders": ORDERS_READ}, "refresh", "amount is gone"),
    (
        {**BOTH.inputs, "orders": replace(ORDERS_READ, delay="9h")},
        "move",
        "it decides what is late from here on",
    ),
    (
        {**BOTH.inputs, "orders": replace(ORDERS_READ, conserved=not ORDERS_READ.conserved)},
        "refresh",
        "it is read in another way",
    ),
    ({**BOTH.inputs, "orders": replace(ORDERS_READ, idle_timeout=timedelta(hours=1))}, "free", ""),
]


def test_a_change_of_inputs_is_free_a_move_or_a_refresh(home):
    for inputs, verdict, why in CHANGES:
        plan = plan_change(home.lakehouse, with_inputs(inputs))
        assert plan.verdict == verdict
        assert why in "; ".join(change.why for change in (*plan.changes, *plan.effects))


def test_a_job_with_a_further_input_goes_on_where_it_was_and_without_it_again(home, without_spark):
    further = with_inputs({**BOTH.inputs, **FURTHER})
    home.job = further
    with pytest.raises(IncompatibleState, match="created with: input further: new"):
        home.run()
    move(home.lakehouse, further, yes=True, runners=without_spark)
    home.land(ORDERS, orders(("c", 130, "pie")))
    home.run()
    assert home.table().height == 1
    # What the new input has behind the watermark is late, and says of which input it is.
    assert home.table("late.hours").select("input", "card").rows() == [("further", "a")]
    home.job = BOTH
    move(home.lakehouse, BOTH, yes=True, runners=without_spark)
    home.run(NOON + timedelta(days=1))
    assert sorted(home.table().select("card", "hour", "orders", "payments").rows()) == [
        ("a", NOON, 1, 1),
        ("b", NOON + 60 * MINUTE, 1, 1),
        ("c", NOON + 120 * MINUTE, 1, 0),
    ]
