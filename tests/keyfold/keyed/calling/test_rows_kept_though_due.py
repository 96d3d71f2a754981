"""A step that keeps rows though they are due gives the rows of plain Python, whatever is late and wherever its deadlines lie."""

from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from keyfold import TestHarness
from tests.examples import examples
from tests.keyfold.keyed.contract_oracles import Notes
from tests.keyfold.keyed.toy_jobs import notes
from tests.lake import minutes
from tests.on_a_grid import moments
from tests.shop import clicks

CLICK = st.tuples(st.sampled_from(["ann", "eve"]), moments(90, 5))


@examples(400)
@given(runs=st.lists(st.lists(CLICK, min_size=1, max_size=9), min_size=1, max_size=4), delay=moments(10, 5))
@example(runs=[[("eve", 84), ("ann", 85)], [("eve", 60), ("eve", 80)]], delay=10)
@example(runs=[[("ann", at) for at in (0, 0, 15, 20, 30)]], delay=0)
@example(runs=[[("ann", 85)], *[[("eve", 0)]] * 2, [*[("eve", 0)] * 5, ("eve", 80)]], delay=10)
def test_a_step_that_keeps_rows_though_they_are_due_gives_the_rows_of_plain_python(runs, delay):
    delay = max(timedelta(0), timedelta(minutes=delay))
    oracle, harness, watermark = Notes(), TestHarness(notes(delay=delay)), None
    oracle.delay = delay
    for run in runs:
        came = [(user, minutes(at)) for user, at in run]
        newest = max(at for _, at in came) - delay
        before, watermark = watermark, newest if watermark is None else max(watermark, newest)
        oracle.take(came, before, watermark)
        harness.batch(clicks(*run))
        assert harness.watermark == watermark
        assert sorted(harness.state.select(oracle.columns).rows(), key=str) == sorted(oracle.rows(), key=str)
    assert sorted(harness.written["notes"].select("user", "at").rows()) == sorted(oracle.output)
    harness.assert_nothing_lost()
