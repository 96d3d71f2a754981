"""Anomaly predictions in order of arrival, and by models that learn at a refresh, against plain Python."""

from datetime import timedelta
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.calling.harness import TestHarness
from keyfold.testing import accounted_for, restart
from spark_jobs.jobs.anomaly_predictions.model_state import MOST_UNLEARNED
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from tests.examples import examples
from tests.on_a_grid import many_of
from tests.shop import NOON
from tests.spark_jobs.jobs.anomaly_predictions import anomaly_oracle
from tests.spark_jobs.jobs.anomaly_predictions.anomaly_oracle import BEGINNING, Batch, Settings
from tests.spark_jobs.jobs.anomaly_predictions.metrics import MOMENTS, assert_rows_agree, latest, metric, metric_frame
from tests.spark_jobs.jobs.anomaly_predictions.metrics import anomaly_job as job_of

SECOND = timedelta(seconds=1)


def play(job, batches):
    """Play batches, each a second after the one before it; the state is written and read between them."""
    harness, came = TestHarness(job), 0
    for number, events in enumerate(batches):
        harness.batch(metric_frame(events), processing_time=NOON + number * SECOND)
        restart(harness)
        came += len(events)
        assert accounted_for(job, harness) == came
    return harness


def values(harness):
    return harness.written["anomaly_predictions"].select("value", "events_learned").rows()


def test_a_refresh_that_is_due_with_a_value_that_comes_just_in_time_retires_no_model():
    job = job_of(order="arrival", learn="refresh", refresh_after="1s", forget_after="30m", delay="0s")
    harness = play(job, [[metric("a", 0, 1)], [metric("a", 30, 2)]])
    assert harness.written["retired_models"].is_empty()
    assert harness.state.filter(role="learning")["events_learned"].to_list() == [1]


def test_more_values_of_a_key_than_may_wait_are_learned_with_their_batch():
    job = job_of(order="arrival", learn="refresh", refresh_after="1h")
    many = [metric("a", minute, minute % 5) for minute in range(MOST_UNLEARNED + 1)]
    as_many_as_may_wait = [{**one, "key": "b"} for one in many[1:]]
    harness = play(job, [[*many, *as_many_as_may_wait]])
    assert harness.state.filter(role="unlearned")["key"].to_list() == ["b"] * MOST_UNLEARNED
    assert harness.state.filter(role="learning", key="a")["events_learned"].to_list() == [MOST_UNLEARNED + 1]


def test_what_waited_for_the_watermark_is_predicted_at_once_after_a_move_to_order_of_arrival():
    harness = play(job_of(), [[metric("a", 0, 1), metric("a", 1, 2)]])
    moved = TestHarness(job_of(order="arrival", emit="all"))
    moved.state, moved.watermark = harness.state, harness.watermark
    moved.batch(metric_frame([metric("a", 0.5, 3)]))
    assert values(moved) == [(1, 0), (3, 1), (2, 2)]


@st.composite
def arrivals(draw):
    """Batches of readings of a few keys in any order, when each came, and how far the watermark stays behind."""
    value = st.one_of(st.integers(8, 12), st.integers(8, 12), st.sampled_from([-0.0, 0, 100, -50, 1e9]))
    one = st.tuples(st.sampled_from("abc"), draw(MOMENTS), value)
    drawn = draw(many_of(many_of(one, 12, 0), 6))
    gaps = draw(st.lists(st.sampled_from([0, 1, 2, 5]), min_size=len(drawn), max_size=len(drawn)))
    delay = timedelta(minutes=draw(st.sampled_from([0, 30, 180])))
    watermark, batches = BEGINNING, []
    for part, seconds in zip(drawn, accumulate(gaps), strict=True):
        events = [metric(*event) for event in part]
        watermark = max([watermark, *(event["timestamp"] - delay for event in events)])
        batches.append(Batch(events, NOON + seconds * SECOND, watermark))
    return batches, delay


definitions = st.builds(
    Settings,
    forget_after=st.sampled_from([timedelta(minutes=30), timedelta(hours=3), timedelta(days=2)]),
    emit=st.sampled_from(["changes", "all"]),
    min_change=st.sampled_from([0.0, 0.2, 1.0]),
    threshold=st.sampled_from([0.0, 0.5, 0.9]),
    min_events=st.integers(0, 5),
)
REFRESHES = st.sampled_from([None, SECOND, 3 * SECOND, timedelta(minutes=1)])
ORDERS = st.sampled_from(["arrival", "event_time"])


def job_at_once(definition, order, refresh_after, delay, **more):
    chosen = {name: value for name, value in vars(definition).items() if name not in ("learn", "period")}
    if refresh_after is not None:
        chosen |= {"learn": "refresh", "refresh_after": refresh_after}
    return job_of(order=order, delay=delay, **chosen, **more)


@examples(200)
@given(arrivals(), definitions, ORDERS, REFRESHES)
def test_batches_give_what_the_definition_says(arrived, definition, order, refresh_after):
    batches, delay = arrived
    harness = TestHarness(job := job_at_once(definition, order, refresh_after, delay))
    for number, batch in enumerate(batches):
        harness.batch(metric_frame(batch.events), batch.processing_time)
        restart(harness)
        assert accounted_for(job, harness) == sum(len(one.events) for one in batches[: number + 1])
    answer = anomaly_oracle.answer_in_batches(batches, definition, order, refresh_after)
    # Of one key in the order in which they were written: late ones lie behind newer ones.
    answer.output.sort(key=lambda row: row["key"])
    written = harness.written["anomaly_predictions"].sort("key", maintain_order=True)
    assert_rows_agree(written.to_dicts(), answer.output)
    assert_rows_agree(latest(harness).drop("low", "high").to_dicts(), [row for _, row in sorted(answer.latest.items())])
    assert sorted(harness.written["retired_models"].rows()) == sorted(answer.retired)
    counts = dict(harness.state.group_by("role").len().iter_rows())
    assert (counts.get("waiting", 0), counts.get("unlearned", 0)) == (answer.waiting, answer.unlearned)
    assert harness.state.filter(role="learning")["events_learned"].sum() == answer.in_models
    late = harness.written["late.anomaly_predictions"]
    assert late.rows() == [tuple(event.values()) for event in answer.late]
    assert order == "event_time" or late.height == 0


@examples(100)
@given(arrivals(), st.sampled_from(list(MODELS)), definitions, ORDERS, REFRESHES, st.randoms())
def test_the_same_batches_give_the_same_bits_whatever_order_their_rows_lie_in_and_wherever_a_crash_is(
    arrived, model, definition, order, refresh_after, random
):
    batches, delay = arrived
    job = job_at_once(definition, order, refresh_after, delay, model=model)
    unbroken, broken = TestHarness(job), TestHarness(job)
    for batch in batches:
        unbroken.batch(metric_frame(batch.events), batch.processing_time)
        if random.random() < 0.5:
            killed = TestHarness(job)
            killed.state, killed.watermark = broken.state, broken.watermark
            killed.batch(metric_frame(random.sample(batch.events, len(batch.events))), batch.processing_time)
        broken.batch(metric_frame(random.sample(batch.events, len(batch.events))), batch.processing_time)
        restart(broken)
    for table in unbroken.written.keys() - {job.late_table}:
        assert unbroken.written[table].equals(broken.written[table])
    order_of_rows = ["role", "key", "timestamp", "value"]
    assert unbroken.state.sort(order_of_rows).equals(broken.state.sort(order_of_rows))
